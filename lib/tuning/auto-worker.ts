import { type NativeCluster, type NativePolicy, type NativeTunerOptions, native } from '../native.ts'
import { runInBackground } from '../simulator/background.ts'

/** One sweep of a recorded window, as it travels to another thread. */
export interface SweepJob {
  window: Uint8Array
  cluster: Pick<NativeCluster, 'latencies' | 'templates'>
  run: NativePolicy
  options: NativeTunerOptions
}

runInBackground()

/** What a thread does with a job. */
export default function work({ window, cluster, run, options }: SweepJob): Float64Array {
  return native.sweepWindow(window, cluster, run, options)
}
