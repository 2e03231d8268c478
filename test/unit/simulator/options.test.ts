import assert from 'node:assert/strict'
import { LaxityError } from '../../../lib/errors.ts'
import { SIMULATE_KEYS } from '../../../lib/simulator/options.ts'
import type { Policy } from '../../../lib/simulator/policies.ts'
import { type CheckedOptions, readOptions } from '../../../lib/simulator/read-options.ts'
import { checkPairOptions } from '../../../lib/simulator/read-pairs.ts'
import { type ClusterKind, readPolicy } from '../../../lib/simulator/read-policy.ts'
import { OptionReader } from '../../../lib/simulator/validate.ts'

const registry = {
  orders: ['fcfs', 'urgency', 'ratio', 'level-ratio'],
  placements: ['round-robin', 'workload-balanced', 'global-queue', 'eftxp'],
  pairPlacements: ['earliest-finish', 'least-loaded', 'round-robin', 'kv-price'],
  parameters: ['alpha', 'beta', 'gamma'],
}

function read(options: unknown, kind: ClusterKind = 'unified'): CheckedOptions & { policy: Policy } {
  const reader = new OptionReader(options, SIMULATE_KEYS)
  const checked = readOptions(reader, registry.parameters)
  const { policy } = readPolicy(reader, registry, kind, checked.compat)
  if (kind !== 'unknown') checkPairOptions(reader, checked.pairs, kind === 'paired')
  reader.problems.throwIfAny()
  return { ...checked, policy }
}

function failure(options: unknown, kind: ClusterKind = 'unified'): LaxityError {
  try {
    read(options, kind)
  } catch (error) {
    assert(error instanceof LaxityError)
    return error
  }
  throw new assert.AssertionError({ message: 'the options were accepted' })
}

describe('options of a run', () => {
  it('has the documented defaults', () => {
    const checked = read({})
    assert.deepEqual(checked.policy, {
      order: 'urgency',
      placement: 'workload-balanced',
      binding: 'at-reveal',
      migrate: false,
    })
    assert.deepEqual(
      [checked.feedback, checked.lookahead, checked.sloScale, checked.seed],
      ['boundary', 0, 5, 1],
    )
    assert.deepEqual([checked.tieSeed, checked.compat, checked.laws], [0, 'none', false])
    assert.deepEqual(checked.parameters, {})
    assert.equal(checked.template, 'mean')
    assert.equal(read({ feedback: 'lease' }).lookahead, 1)
    assert.equal(read({ placement: 'global-queue' }).policy.binding, 'at-credit')
  })

  it('takes presets and lets parts override them', () => {
    const vllm = { order: 'fcfs', placement: 'round-robin', binding: 'at-reveal', migrate: false }
    assert.deepEqual(read({ policy: 'vllm' }).policy, vllm)
    assert.deepEqual(read({ policy: 'vllm', order: 'ratio' }).policy, { ...vllm, order: 'ratio' })
    const shared = { order: 'fcfs', placement: 'global-queue', binding: 'at-credit', migrate: false }
    assert.deepEqual(read({ policy: 'vllm', placement: 'global-queue' }).policy, shared)
    assert.deepEqual(read({ policy: { order: 'fcfs', placement: 'global-queue' } }).policy, shared)
    assert.equal(
      read({ policy: { order: 'fcfs', placement: 'eftxp', binding: 'at-credit' } }).policy.binding,
      'at-credit',
    )
  })

  it('lets waiting calls move where the preset says so, and where it can be', () => {
    assert.equal(read({ policy: 'laxity' }).policy.migrate, true)
    assert.equal(read({ policy: 'laxity', migrate: false }).policy.migrate, false)
    assert.equal(read({ policy: 'laxity', binding: 'at-credit' }).policy.migrate, false)
    assert.equal(read({ policy: 'laxity', compat: 'hexgen' }).policy.migrate, false)
    assert.equal(read({ migrate: true }).policy.migrate, true)
  })

  it('passes parameters on', () => {
    assert.deepEqual(read({ beta: 2, parameters: { gamma: 0.5 } }).parameters, { beta: 2, gamma: 0.5 })
  })

  it('treats undefined as left out', () => {
    assert.deepEqual(read(Object.fromEntries(SIMULATE_KEYS.map((key) => [key, undefined]))), read({}))
  })

  const wrong: [options: unknown, message: RegExp][] = [
    [{ migrate: true, compat: 'hexgen' }, /reproduces a simulator without migration/],
    [null, /Expected an object for `options`, got null/],
    [{ ordr: 'fcfs' }, /Unknown option `ordr`; did you mean "order"\?/],
    [{ order: 'urgencyy' }, /Unknown order "urgencyy"; did you mean "urgency"\?/],
    [{ placement: 'zzz' }, /Unknown placement "zzz" \(known: round-robin, workload-balanced/],
    [{ placement: 3 }, /Expected one of round-robin.* for `placement`, got 3 \(number\)/],
    [{ policy: 'vlm' }, /Unknown policy "vlm"; did you mean "vllm"\?/],
    [{ policy: 5 }, /Expected a preset's name or \{ order, placement \} for `policy`, got 5/],
    [
      { policy: { order: 'fcfs', placement: 'eftxp', bindng: 'at-credit' } },
      /Unknown option `policy\.bindng`; did you mean "binding"\?/,
    ],
    [{ parameters: [] }, /Expected an object of numbers for `parameters`, got an array/],
    [{ policy: { order: 'fcfs' } }, /Expected a name for `policy.placement`, got undefined/],
    [{ policy: { order: 'lifo', placement: 'eftxp' } }, /policy\.order: Unknown order "lifo"/],
    [{ rate: 0 }, /Expected a positive number up to 1000000 for `rate`, got 0 \(number\)/],
    [{ rate: -1 }, /`rate`, got -1/],
    [{ rate: Number.NaN }, /`rate`, got NaN \(number\)/],
    [{ rate: Number.POSITIVE_INFINITY }, /`rate`, got Infinity/],
    [{ rate: '1' }, /`rate`, got "1" \(string\)/],
    [{ arrivals: 'trace', rate: 1 }, /`rate` has no meaning/],
    [{ seed: -1 }, /Expected a safe integer >= 0 for `seed`, got -1/],
    [{ seed: 2 ** 53 }, /`seed`, got 9007199254740992/],
    [{ tieSeed: 0.5 }, /`tieSeed`/],
    [{ beta: 0 }, /`beta`/],
    [{ sloScale: 0 }, /`sloScale`/],
    [{ lookahead: 1 }, /`lookahead` needs feedback "lease"/],
    [{ template: 'worst' }, /Unknown template "worst" \(known: mean, pessimistic\)/],
    [{ knowledge: 'all' }, /Unknown knowledge "all" \(known: online, template, declared, oracle\)/],
    [{ mode: 'chunkd' }, /Unknown mode "chunkd"; did you mean "chunked"\?/],
    [{ chunkTokens: 0 }, /Expected a whole number from 1 to 1000000 for `chunkTokens`, got 0/],
    [{ decodeShare: 1 }, /Expected a number from 0.001 to 0.999 for `decodeShare`, got 1/],
    [{ workers: -1 }, /`workers`/],
    [{ signal: {} }, /Expected an AbortSignal for `signal`/],
    [{ onProgress: 1 }, /Expected a function for `onProgress`/],
    [{ laws: 'yes' }, /Expected true or false for `laws`/],
    [{ parameters: { gama: 1 } }, /Unknown parameter `parameters.gama`; did you mean "gamma"\?/],
    [{ parameters: { gamma: Number.NaN } }, /Expected a finite number for `parameters.gamma`, got NaN/],
    [{ parameters: { alpha: 0.5 } }, /give `alpha`/],
  ]
  for (const [options, message] of wrong) {
    it(`refuses ${typeof options === 'object' && options ? Object.keys(options).join(', ') : options}: ${message.source}`, () => {
      const error = failure(options)
      assert.equal(error.code, 'ERR_LAXITY_OPTION')
      assert.match(error.message, message)
    })
  }

  describe('on prefill-decode clusters', () => {
    const hexagent = { order: 'ratio', placement: 'earliest-finish', binding: 'at-credit', migrate: false }

    it('defaults to HexAGenT, and `laxity` is another policy there', () => {
      assert.deepEqual(read({}, 'paired').policy, hexagent)
      assert.deepEqual(read({ policy: 'hexagent' }, 'paired').policy, hexagent)
      const laxity = {
        ...hexagent,
        order: 'level-ratio',
        placement: 'kv-price',
        parameters: { structuralMinimum: 1 },
      }
      assert.deepEqual(read({ policy: 'laxity' }, 'paired').policy, laxity)
      const baseline = { order: 'fcfs', placement: 'least-loaded', binding: 'at-reveal', migrate: false }
      assert.deepEqual(
        read({ policy: { order: 'fcfs', placement: 'least-loaded' } }, 'paired').policy,
        baseline,
      )
      assert.deepEqual(read({ order: 'fcfs', placement: 'least-loaded' }, 'paired').policy, baseline)
    })

    it('has the defaults of the contract', () => {
      assert.deepEqual(read({}, 'paired').pairs.options, {
        reserve: 'early',
        staging: 'none',
        decodeAdmission: 'scheduler',
        links: 'contended',
        backfill: false,
        lateDecode: false,
        overlap: 0,
      })
    })

    const refused: [options: object, kind: ClusterKind, message: RegExp][] = [
      [{ placement: 'eftxp' }, 'paired', /"eftxp" is for unified clusters \(known: earliest-finish, least-l/],
      [{ policy: { order: 'fcfs', placement: 'eftxp' } }, 'paired', /policy\.placement: .*is for unified/],
      [
        { placement: 'least-loadd' },
        'paired',
        /Unknown placement "least-loadd"; did you mean "least-loaded"/,
      ],
      [{ placement: () => 0 }, 'paired', /`placement` must be a name on a prefill-decode cluster/],
      [{ policy: 'vllm' }, 'paired', /Policy "vllm" is for unified clusters/],
      [{ policy: 'hexagent' }, 'unified', /Policy "hexagent" needs a prefill-decode cluster/],
      [{ placement: 'least-loaded' }, 'unified', /"least-loaded" needs a prefill-decode cluster/],
      [{ links: 'free', overlap: 0.5 }, 'unified', /2 problems: `links` needs a pre.*`overlap` needs a pre/],
      [{ links: 'fre' }, 'paired', /Unknown links "fre"; did you mean "free"\?/],
      [{ overlap: 1.5 }, 'paired', /Expected a number from 0 to 1 for `overlap`, got 1\.5/],
      [{ backfill: 'yes' }, 'paired', /Expected true or false for `backfill`/],
      [{ staging: 'unlimited', reserve: 'late' }, 'paired', /`reserve` has no meaning with staging/],
      [{ mode: 'chunked' }, 'paired', /`mode` is for unified clusters/],
      [{ migrate: true }, 'paired', /`migrate` is for unified clusters/],
      [{ compat: 'hexgen' }, 'paired', /`compat` reproduces a simulator of unified clusters/],
    ]
    for (const [options, kind, message] of refused) {
      it(`refuses ${JSON.stringify(options)} where the cluster is ${kind}`, () =>
        assert.match(failure(options, kind).message, message))
    }

    it('reports names that no cluster knows where the cluster itself is wrong', () => {
      assert.match(failure({ placement: 'zzz' }, 'unknown').message, /Unknown placement "zzz" \(known: round/)
      assert.equal(read({ placement: 'least-loaded' }, 'unknown').policy.placement, 'least-loaded')
    })
  })

  it('reports all problems at once', () => {
    const error = failure({ rate: -1, seed: 0.5, order: 'x', typo: 1 })
    assert.match(error.message, /^4 problems: /)
    const parts = (error.cause as AggregateError).errors as LaxityError[]
    assert.deepEqual(parts.map(({ place }) => place).sort(), ['order', 'rate', 'seed', 'typo'])
  })
})
