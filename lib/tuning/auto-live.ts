import { LaxityError } from '../errors.ts'
import type { NativePolicy, NativeTuner } from '../native.ts'
import { native } from '../native.ts'
import type { Core } from '../scheduler/core.ts'
import { RECORD_BYTES } from '../scheduler/records.ts'
import { type TuningEvent, tuningEvents } from './auto-events.ts'
import type { TunerHistory } from './auto-history.ts'
import type { CheckedAutoTune } from './auto-options.ts'
import { sweepOnPool } from './auto-pool.ts'

/** Parameters of real engines (admission, breakers, …) have no meaning in a replay of the window. */
const FIRST_LIVE_PARAMETER = 'queueLimit'

/**
 * The tuner of a live scheduler. It reads the core's log as it is written, sweeps on another thread, and changes the
 * parameter by an ordinary setParameters event, so that the log replays. No timer: without events there is nothing new.
 *
 * Its state depends on the log and the results of its sweeps alone. With a `history` these are kept, so that the tuner of
 * a restored scheduler continues: window, detectors, thresholds, a sweep that was under way.
 */
export class LiveTuner {
  readonly #core: Core
  readonly #parameter: string
  readonly #id: number
  readonly #options: CheckedAutoTune['native']
  readonly #tuner: NativeTuner
  #history: TunerHistory | undefined
  /** Records that the tuner has seen. */
  #seen = 0
  #told = 0
  /** While a log is replayed: a sweep whose result has not come yet. */
  #pending: Uint8Array | undefined

  constructor(core: Core, { parameter, native: options }: CheckedAutoTune) {
    const { instances } = core
    const { parameters, pairs } = core.options
    this.#core = core
    this.#parameter = parameter
    this.#options = options
    this.#id = native.parameters.indexOf(parameter)
    const current = parameters[parameter] ?? native.parameterDefaults[this.#id]!
    this.#tuner = new native.Tuner(
      options,
      { latencies: instances.latencies, ...(pairs !== undefined && { pairs }) },
      current,
    )
  }

  /** From now on the core's log comes here, and results go to `history`. */
  listen(history: TunerHistory | undefined): void {
    this.#history = history
    this.#core.onLog = (records) => this.#heard(records)
    if (this.#pending !== undefined) void this.#sweep(this.#pending)
    this.#pending = undefined
  }

  /** Records that a log holds, up to the end of an instant: everything but the sweeps happens again. */
  replay(records: Uint8Array, history: TunerHistory): void {
    const window = this.#feed(records)
    if (window !== undefined) this.#pending = window
    for (const result of history.after(this.#seen)) {
      if (this.#pending === undefined) break
      this.#pending = undefined
      this.#tuner.arrived(result.ns, result.numbers)
    }
    this.#told += this.#news().length
  }

  #heard(records: Uint8Array): void {
    const window = this.#core.closing ? undefined : this.#feed(records)
    // Alarms are told at once, also while a sweep runs.
    this.#tell()
    if (window !== undefined) void this.#sweep(window)
  }

  /** The window, where a sweep is due. The time is the log's, so that a replay asks at the same times. */
  #feed(records: Uint8Array): Uint8Array | undefined {
    if (records.length === 0) return undefined
    this.#seen += records.length / RECORD_BYTES
    this.#tuner.feed(records)
    const last = new DataView(records.buffer, records.byteOffset + records.length - RECORD_BYTES)
    const ns = Number(last.getBigInt64(0, true))
    return this.#tuner.due(ns) ? this.#tuner.begin(ns) : undefined
  }

  #news(): TuningEvent[] {
    return tuningEvents(this.#tuner.events(this.#told))
  }

  #tell(): void {
    const events = this.#news()
    this.#told += events.length
    for (const event of events) this.#core.emit('tuned', event)
  }

  async #sweep(window: Uint8Array): Promise<void> {
    const core = this.#core
    let numbers: Float64Array
    try {
      const { templates } = core.options
      numbers = await sweepOnPool({
        window,
        cluster: {
          latencies: core.instances.latencies,
          templates: templates.entries.map((entries) =>
            entries.map(({ stage, ...tokens }) => ({ stage: core.stages.id(stage), ...tokens })),
          ),
        },
        run: replayPolicy(core),
        options: this.#options,
      })
    } catch (cause) {
      const message = `The auto-tuner could not sweep: ${(cause as Error).message}`
      core.emit('warning', new LaxityError('ERR_LAXITY_NATIVE', message, 'autoTune', { cause }))
      return
    }
    if (core.closing) return
    const [status, apply, value] = numbers as unknown as number[]
    const ns = Math.round(core.nowMs() * 1e6)
    this.#tuner.arrived(ns, numbers)
    this.#history?.append({ after: this.#seen, ns, numbers })
    if (status !== 0) {
      const message = `The auto-tuner could not replay the window: ${native.statusReasons[status!]}`
      core.emit('warning', new LaxityError('ERR_LAXITY_NATIVE', message, 'autoTune'))
    } else if (apply === 1) {
      core.administer(
        (writer, t) => writer.setParameter(t, this.#id, value!),
        `parameters.${this.#parameter}`,
      )
      core.options.parameters[this.#parameter] = value!
    }
    this.#tell()
  }
}

function replayPolicy(core: Core): NativePolicy {
  const { policy, parameters, lookahead, tieSeed, templates, pairs } = core.options
  const limit = native.parameters.indexOf(FIRST_LIVE_PARAMETER)
  const kept = Object.entries(parameters).filter(([name]) => native.parameters.indexOf(name) < limit)
  return {
    ...policy,
    feedback: 'lease',
    lookahead,
    knowledge: templates.entries.length > 0 ? 'template' : 'online',
    parameters: Object.fromEntries(kept),
    tieSeed,
    compat: 'none',
    ...(pairs !== undefined && { pairs }),
  }
}
