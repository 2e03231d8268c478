import assert from 'node:assert/strict'
import { LaxityError } from '../../../lib/errors.ts'
import { type CheckedError, readError } from '../../../lib/simulator/prediction-error.ts'
import { OptionReader } from '../../../lib/simulator/validate.ts'

function read(error: unknown): CheckedError | undefined {
  const reader = new OptionReader({ error }, ['error'])
  const checked = readError(reader)
  reader.problems.throwIfAny()
  return checked
}

const none = { length: 'none', size: 0, share: 0.05, correlation: 0, gpu: 0, batch: 1 }

describe('the option `error`', () => {
  const right: [given: unknown, native: object, text: string][] = [
    ['length=lognormal:0.4', { length: 'lognormal', size: 0.4 }, 'length=lognormal:0.4'],
    ['length=mean-absolute:.2', { length: 'mean-absolute', size: 0.2 }, 'length=mean-absolute:0.2'],
    ['length=bias:-0.2', { length: 'bias', size: -0.2 }, 'length=bias:-0.2'],
    ['length=heavy-tail', { length: 'heavy-tail', size: 4 }, 'length=heavy-tail'],
    ['length=heavy-tail:0.1:8', { length: 'heavy-tail', size: 8, share: 0.1 }, 'length=heavy-tail:0.1:8'],
    [
      ' time=gpu:0.2, batch=5e-1 ,length=uniform:0.3,correlation=1',
      { length: 'uniform', size: 0.3, correlation: 1, gpu: 0.2, batch: 0.5 },
      'length=uniform:0.3,correlation=1,time=gpu:0.2,batch=0.5',
    ],
    [{ time: 'gpu:0.2', batch: 2 }, { gpu: 0.2, batch: 2 }, 'time=gpu:0.2,batch=2'],
    [{ length: undefined, batch: 0 }, { batch: 0 }, 'batch=0'],
  ]
  for (const [given, native, text] of right) {
    it(`reads ${JSON.stringify(given)}`, () => {
      assert.deepEqual(read(given), { native: { ...none, ...native }, text })
      assert.deepEqual(read(text), read(given))
    })
  }

  it('may be left out', () => assert.equal(read(undefined), undefined))

  const wrong: [given: unknown, message: RegExp][] = [
    [5, /Expected text or an object for `error`, got 5/],
    [[], /got an array/],
    ['', /Expected parts like/],
    ['length', /Expected parts like/],
    ['length=', /Expected parts like/],
    ['length=lognormal:0.4,', /Expected parts like/],
    [{ lengths: 'bias:1' }, /Unknown part "lengths" of `error`; did you mean "length"\?/],
    ['length=lognormal', /Expected lognormal:SIGMA for `length` of `error`, got "lognormal"/],
    ['length=lognormal:0.4:1', /Expected lognormal:SIGMA/],
    [
      'length=lognormal:x',
      /Expected a number from 0 to 3 for `error`, got "x" \(string\) \(length=lognormal, SIGMA\)/,
    ],
    ['length=lognormal:-0.1', /from 0 to 3/],
    ['length=heavy-tail:0.1', /heavy-tail or heavy-tail:SHARE:FACTOR/],
    ['length=heavy-tail:2:4', /SHARE/],
    ['length=toString:1', /Unknown kind "toString"/],
    [{ length: 0.4 }, /Unknown kind 0.4 \(number\)/],
    ['correlation=0.5', /give `length` too/],
    ['length=bias:1,correlation=2', /from 0 to 1 for `error`, got "2" \(string\) \(correlation\)/],
    ['time=cpu:0.1', /Expected gpu:SIGMA/],
    [{ time: 0.1 }, /Expected gpu:SIGMA for `time` of `error`, got 0.1/],
    [{ batch: Number.NaN }, /got NaN/],
    ['batch=1,batch=1', /twice/],
  ]
  for (const [given, message] of wrong) {
    it(`refuses ${JSON.stringify(given)}`, () => {
      assert.throws(
        () => read(given),
        (error) => {
          assert(error instanceof LaxityError)
          assert.deepEqual([error.code, error.place], ['ERR_LAXITY_OPTION', 'error'])
          assert.match(error.message, message)
          return true
        },
      )
    })
  }
})
