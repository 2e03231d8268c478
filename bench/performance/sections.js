// What stands above the table of each suite, and how its limit is derived. Facts about the code, no numbers of a run.
export const SECTIONS = {
  structures: {
    title: 'Queues',
    text: `The indexed heap and the tournament tree of the core beside priority queues of npm, on the same work.
Limit of the heap: one load per level of a 4-ary tree, each from the cache that holds the levels down to it, since the next level is
known only when this one has been compared; five entries of a level read or written. The tree's climb is known beforehand: a leaf and
the winner above it, no waiting.`,
  },
  dispatch: {
    title: 'Dispatch',
    text: `The choice of an instance by \`workload-balanced\` with the queue that the call enters, and with another call,
drawn from all that are assigned, that leaves its queue. The target is a prototype's; what it counted is not known, and it stands beside
the first of the two. Then whole calls through the scheduler core: five events and one decide.
Limit of a choice: the ledgers of these queues read and written. Of a call: its record and its workflow's written when it is revealed, found again
among all that wait when it is leased, and among the leases when it ends; five events and a decision written and read. \`laxity\` also reads a line of
each instance for its score.`,
  },
  planner: {
    title: 'The pair planner',
    text: `One plan of N waiting calls on P x D instances; light: KV 40 % committed, tight: 97 %. At 2x2 the
light setting leaves some 190,000 tokens free, and 128 calls need some 235,000: there it waits for KV too. The rival is the same exact
greedy in plain JavaScript on flat typed arrays (\`bench/rival\`), which finds the same plans; naive is the planner of the native tests,
which recomputes every pair at every step.
Limit: each call's twelve times and five numbers and each instance's state read once, each entry written once.`,
  },
  boundary: {
    title: 'The boundary',
    text: `Wall time by benchmark.js; the others are CPU times.
Limit: the empty calls that are made, and the numbers that are written on one side and read on the other. An event is a record of
128 bytes in a ring that both sides see. The scheduler's ring takes events as objects; the distance of those rows is V8 reading their
fields.`,
  },
  model: {
    title: 'The latency model',
    text: 'Estimates in columns. Limit: the numbers in and the time out.',
  },
  sweep: {
    title: 'The α sweep',
    text: `Eleven values of α over one trace on four instances, all runs one after the other on one thread.
Limit: the trace's columns once per run, and three visits to the records of each call and its workflow among those under way.`,
  },
  simulator: {
    title: 'The simulator',
    text: `Simulated calls per second of thread CPU time at load 0.7, over instances and workflows (CHESS-like, 21 calls each).
Stepping is the oracle of the native tests: it visits every iteration with plain loops; it is compared with the leaping engine in the
same program. Limit as above.`,
  },
  pairs: {
    title: 'Prefill-decode clusters in the simulator',
    text: `\`hexagent\` on 8 + 8 instances at load 0.9: every decide plans. Limit: as of the simulator, and one plan with one
call in it.`,
  },
  live: {
    title: 'The live scheduler',
    text: `64 instances, 10,000 calls waiting, each call with its own workflow: opened, \`call()\`, first token, \`done()\`, ended.
CPU time of the process, samples of 12,800 calls.
Limit: five events through the ring, a promise, a decide per 64 calls (or per call), the records as in dispatch; one AbortController
where workflows have a signal. \`hexgen-flow\` keeps static keys in heaps. \`laxity\` scores 64 instances per placement and moves
waiting calls; its keys change with time, so its queues are picked by lines ([key_lines.h](../native/scheduler/key_lines.h)): four
products a waiting call say who may be the most urgent, exact keys decide between the few that rounding cannot tell apart.`,
  },
  busy: {
    title: 'Deciding beside a busy pool',
    text: `200 calls wait on 10 + 10 instances of three kinds, policy \`laxity\`; a turn is a first token that gives credit, so a plan
over all of them and its leases, 1 ms apart, while a sweep keeps a pool of threads busy. Values are 99th percentiles, so the distance
from the limit of one turn is large by nature. What threads that compete cost is the wait until the loop gets its turn: pools beside a
live scheduler run in its background (ten nice levels lower, not the lowest, so that a sweep ends on machines that are never idle).`,
  },
}

export const CHARGES = `Virtual machines of one name differ: in two runs of this page an empty call took 12.2 and 20.6 ns, and the rows further down moved by
1.4 to 1.7 times with it. Compare this table before any other.`

/** Why a known number is not met. */
export const REASONS = {
  sweep: `**The sweep of the prototype.** A simulated call here takes {instructions} instructions (\`simulate-hexgen-flow\` of the gate:
{pathInstructions} for {pathCalls} calls), in two instants: end of prefill, finish. Each goes through the engine's step, its events
into the scheduler, upkeep of keys and placement, and a decision, in some 45 functions of which none takes over 10 %. At
{callNs} ns a call that is {perNs} instructions per nanosecond (some 8 % fewer instructions with the link-time optimisation of the
addon). Four of them per cycle at 4 GHz would be 16, and {bestMs} ms for the {sweepCalls} calls of a sweep: for 5 ms the work would have to
become less, not only faster. Memory is not what it waits for: at four instances everything lies in the second-level cache, and the
limit of the row is {limitMs} ms. The prototype was thrown away, and what it left out is not known. Here the simulator drives the very
scheduler that runs live, with its ledger, checks of every event, orders and placements that can be exchanged, engine modes, prefix
caches and migration.`,
  greedy: `**Exact greedy.** After each entry the calls whose best pair it touched are evaluated again: with few instances nearly all of
them, so about N²/2 evaluations; with saturated KV each of these also searches the releases of its instances. The evaluations are
arithmetic on data that lies in the first-level cache: the limit by memory is far below.`,
  onepass: `**One pass.** N evaluations and a sort; each evaluation goes along the decode instances of three classes until one can no
longer win.`,
  choice: `**The choice of an instance.** A division per class (α's score is a quotient) and a climb in the tree of the class that the call
enters. What the prototype counted is not known; in a steady state a call also leaves a queue for each that enters one, anywhere, so the
second figure has that too. That costs more than the choice itself: who wins in a tree of random loads cannot be foreseen, and of a tree with
1,024 leaves some five branches are mispredicted (callgrind's model).`,
  untuned: `**Untuned against tuned.** Not a matter of speed. The scenarios are drawn from [quality.md](quality.md)'s distribution; the
rival there is tuned on the very scenario, for each metric on its own, over 33 pairs of α and β. With \`ratio\` and migration both ratios come
nearer.`,
  hexagent: `**\`hexagent\` against workflow-FCFS.** Inside or near the known range, not at its far end; see "What reproduces, and what does
not" in [hexagent.md](hexagent.md): most of the gain comes from choosing the pair, which depends on how unlike the instances are.`,
  hint: `**The exact hint.** At load 0.9 a plan finds one to twenty waiting calls, and what it finds goes out within a few plans: an
order has little to choose from ([hexagent.md](hexagent.md), last section). Above saturation it takes 23 to 39 % off Req95 on
BFCL-v3 with Llama, and little elsewhere.`,
}

export const SCALING = `y = c·xᵏ fitted by least squares on the logarithms, k with its standard error; beside it k of the three largest sizes, which is
larger where a constant part is being left behind. A standard error above 0.25 means that no single power describes the series; then no
line is drawn. Sizes that would take over two minutes each are left out. The runs of the simulator are processes of their own, whose peak
memory stands in the last table.

Exact greedy ends at N²: one evaluation per call and entry; the scheduler plans by one pass from a threshold on. \`laxity\` at dispatch has
three regimes, so its curves go down as well as up. Where instances have room while calls wait elsewhere, migration projects every
candidate in its queue, and on every instance those that could gain enough (before it left the others out, 100 calls at 64 instances
cost 55–230 µs). Where all that waits on an instance fits its KV, sums answer for the queue: only the
number of instances counts. Where it does not fit, positions in the queue matter, and a placement reads the
lines of all that wait: four products a call.`

export const TRIED = `## What helped the simulator, and what did not

On the sweep, in instructions or time, when it was tried: handing memory from run to run (page faults were 30 % of a short run); 64-bit sums
where they suffice, 128-bit beyond; the time alone of every workflow, on which SLOs stand, once for all runs of a trace on a cluster
(11 %); not touching instances for which nothing waits; link-time optimisation (8 %); −O2 rather than
−O3 (8 %: the path is long, not tight). A memory of equal estimates was dropped: it helps only resampled traces. \`chunked\` (512
tokens) takes 1.34 times the instructions of \`prefill-first\`, \`decode-share\` (0.5) 1.44 times: 1.17 and 1.32 times as many
instants, and 128-bit divisions where speeds change.`
