/** Of greedy.js, for its test. */
export class GreedyPlanner {
  constructor(state: object)
  readonly out: Readonly<Record<'call' | 'prefill' | 'decode' | 'finish', Int32Array | Float64Array>>
  reset(): void
  plan(): number
}
