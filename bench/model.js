// What an estimate costs: from the tables that the simulator reads, in the closed form, and building the tables of one
// (model, GPU, parallelism). CPU time of this process per element of long columns, medians of 15.
import { createEstimator } from '../dist/model/estimate.js'
import { native } from '../dist/native.js'
import { cpuNs, spread as summary } from './measure.js'

const ELEMENTS = 4096
const REPEATS = 50
/** Bytes an element: two numbers in and a time out; the closed form reads six numbers. */
const TRAFFIC = { tabulated: 4 + 8 + 8, 'closed form': 6 * 8 + 8 }

/** ns of CPU time per element. */
function perElement(work, elements, repeats) {
  const turn = () => {
    for (let j = 0; j < repeats; j += 1) work()
  }
  turn()
  return Array.from({ length: 15 }, () => cpuNs(turn) / (repeats * elements))
}

/** Spread over the range, the same every time. */
function spread(low, high) {
  return Float64Array.from({ length: ELEMENTS }, (_, i) =>
    Math.floor(low + ((i * 2_654_435_761) % 4_294_967_296) * ((high - low) / 4_294_967_296)),
  )
}

export async function run(_say, { quick }) {
  const rows = []
  const setups = [
    { model: 'llama-3.1-70b', gpu: 'h100', tp: 4 },
    { model: 'qwen3-235b-a22b', gpu: 'h100', tp: 8 },
  ]
  const batch = Uint32Array.from(spread(1, 256))
  const context = spread(1, 1_000_000)
  const fresh = Uint32Array.from(spread(1, 8192))
  const cached = Uint32Array.from(spread(0, 4096))
  const out = new Float64Array(ELEMENTS)
  for (const setup of setups) {
    const { spec } = (await createEstimator(setup)).setup
    const described = { latencies: [{ kind: 'roofline', ...spec }] }
    const model = new native.Latency(described)
    const closed = new native.Roofline(spec)
    const decodeLoads = new Float64Array(6 * ELEMENTS)
    const prefillLoads = new Float64Array(6 * ELEMENTS)
    for (let i = 0; i < ELEMENTS; i += 1) {
      const [q, c] = [fresh[i], cached[i]]
      decodeLoads.set([batch[i], context[i], 0, 0, 0, batch[i]], 6 * i)
      prefillLoads.set([0, 0, (q * (2 * c + q)) / 2, q, c + q, 1], 6 * i)
    }
    const row = (name, work, target) =>
      rows.push({
        name: `${setup.model}, ${name}`,
        unit: 'ns',
        ...summary(perElement(work, ELEMENTS, quick ? 10 : REPEATS)),
        target,
        traffic: [{ bytes: TRAFFIC[name.slice(name.indexOf(', ') + 2)], reach: ELEMENTS * 64 }],
      })
    row('decode, tabulated', () => model.decode(batch, context, out), 20)
    row('prefill, tabulated', () => model.prefill(fresh, cached, out), 20)
    row('decode, closed form', () => closed.iterations(decodeLoads, out), 500)
    row('prefill, closed form', () => closed.iterations(prefillLoads, out), 500)
    rows.push({
      name: `${setup.model}, building the tables`,
      unit: 'ms',
      ...summary(
        perElement(() => new native.Latency(described), 1, 5),
        (ns) => ns / 1e6,
      ),
      target: 10,
    })
  }
  return rows
}
