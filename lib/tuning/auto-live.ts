import { LaxityError } from '../errors.ts'
import type { NativePolicy } from '../native.ts'
import { native } from '../native.ts'
import type { Core } from '../scheduler/core.ts'
import { type TuningEvent, tuningEvents } from './auto-events.ts'
import type { CheckedAutoTune } from './auto-options.ts'
import { sweepOnPool } from './auto-pool.ts'

/** Parameters of real engines (admission, breakers, …) have no meaning in a replay of the window. */
const FIRST_LIVE_PARAMETER = 'queueLimit'

/**
 * The tuner of a live scheduler. It reads the core's log as it is written, sweeps on another thread, and changes the
 * parameter by an ordinary setParameters event, so that the log replays. No timer: without events there is nothing new.
 */
export function attachTuner(core: Core, { parameter, native: options }: CheckedAutoTune): void {
  const { instances } = core
  const id = native.parameters.indexOf(parameter)
  const tuner = new native.Tuner(options, { latencies: instances.latencies }, currentOf(core, parameter, id))
  let told = 0
  const tell = (): void => {
    const events: TuningEvent[] = tuningEvents(tuner.events(told))
    told += events.length
    for (const event of events) core.emit('tuned', event)
  }
  const sweep = async (window: Uint8Array): Promise<void> => {
    let result: Float64Array
    try {
      const { templates } = core.options
      result = await sweepOnPool({
        window,
        cluster: {
          latencies: instances.latencies,
          templates: templates.entries.map((entries) =>
            entries.map(({ stage, ...tokens }) => ({ stage: core.stages.id(stage), ...tokens })),
          ),
        },
        run: replayPolicy(core),
        options,
      })
    } catch (cause) {
      const message = `The auto-tuner could not sweep: ${(cause as Error).message}`
      core.emit('warning', new LaxityError('ERR_LAXITY_NATIVE', message, 'autoTune', { cause }))
      return
    }
    if (core.closing) return
    const [status, apply, value] = result as unknown as number[]
    tuner.arrived(nowNs(core), result)
    if (status !== 0) {
      const message = `The auto-tuner could not replay the window: ${native.statusReasons[status!]}`
      core.emit('warning', new LaxityError('ERR_LAXITY_NATIVE', message, 'autoTune'))
    } else if (apply === 1) {
      core.administer((writer, t) => writer.setParameter(t, id, value!), `parameters.${parameter}`)
      core.options.parameters[parameter] = value!
    }
    tell()
  }
  core.onLog = (records) => {
    if (records.length > 0) tuner.feed(records)
    const now = nowNs(core)
    const due = !core.closing && tuner.due(now)
    // Alarms are told at once, also while a sweep runs.
    tell()
    if (!due) return
    const window = tuner.begin(now)
    if (window !== undefined) void sweep(window)
  }
}

function nowNs(core: Core): number {
  return Math.round(core.nowMs() * 1e6)
}

function currentOf(core: Core, parameter: string, id: number): number {
  return core.options.parameters[parameter] ?? native.parameterDefaults[id]!
}

function replayPolicy(core: Core): NativePolicy {
  const { policy, parameters, lookahead, tieSeed, templates } = core.options
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
  }
}
