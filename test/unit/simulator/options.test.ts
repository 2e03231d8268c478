import assert from 'node:assert/strict'
import { LaxityError } from '../../../lib/errors.ts'
import { SIMULATE_KEYS } from '../../../lib/simulator/options.ts'
import { type CheckedOptions, readOptions } from '../../../lib/simulator/read-options.ts'
import { OptionReader } from '../../../lib/simulator/validate.ts'

const registry = {
  orders: ['fcfs', 'urgency', 'ratio'],
  placements: ['round-robin', 'workload-balanced', 'global-queue', 'eftxp'],
  parameters: ['alpha', 'beta', 'gamma'],
}

function read(options: unknown): CheckedOptions {
  const reader = new OptionReader(options, SIMULATE_KEYS)
  const checked = readOptions(reader, registry)
  reader.problems.throwIfAny()
  return checked
}

function failure(options: unknown): LaxityError {
  try {
    read(options)
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
    const vllm = { order: 'fcfs', placement: 'round-robin', binding: 'at-reveal' }
    assert.deepEqual(read({ policy: 'vllm' }).policy, vllm)
    assert.deepEqual(read({ policy: 'vllm', order: 'ratio' }).policy, { ...vllm, order: 'ratio' })
    const shared = { order: 'fcfs', placement: 'global-queue', binding: 'at-credit' }
    assert.deepEqual(read({ policy: 'vllm', placement: 'global-queue' }).policy, shared)
    assert.deepEqual(read({ policy: { order: 'fcfs', placement: 'global-queue' } }).policy, shared)
    assert.equal(
      read({ policy: { order: 'fcfs', placement: 'eftxp', binding: 'at-credit' } }).policy.binding,
      'at-credit',
    )
  })

  it('passes parameters on', () => {
    assert.deepEqual(read({ beta: 2, parameters: { gamma: 0.5 } }).parameters, { beta: 2, gamma: 0.5 })
  })

  it('treats undefined as left out', () => {
    assert.deepEqual(read(Object.fromEntries(SIMULATE_KEYS.map((key) => [key, undefined]))), read({}))
  })

  const wrong: [options: unknown, message: RegExp][] = [
    [null, /Expected an object for `options`, got null/],
    [{ ordr: 'fcfs' }, /Unknown option `ordr`; did you mean "order"\?/],
    [{ order: 'urgencyy' }, /Unknown order "urgencyy"; did you mean "urgency"\?/],
    [{ placement: 'zzz' }, /Unknown placement "zzz" \(known: round-robin, workload-balanced/],
    [{ placement: 3 }, /Expected one of round-robin.* for `placement`, got 3 \(number\)/],
    [{ policy: 'vlm' }, /Unknown policy "vlm"; did you mean "vllm"\?/],
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

  it('reports all problems at once', () => {
    const error = failure({ rate: -1, seed: 0.5, order: 'x', typo: 1 })
    assert.match(error.message, /^4 problems: /)
    const parts = (error.cause as AggregateError).errors as LaxityError[]
    assert.deepEqual(parts.map(({ place }) => place).sort(), ['order', 'rate', 'seed', 'typo'])
  })
})
