import type { Progress } from '../simulator/options.ts'

const SHOWN_AFTER_MS = 1000

export interface ProgressBar {
  update: (progress: Progress) => void
  stop: () => void
}

/** A bar on standard error for what takes over a second; nothing where that is not a terminal. */
export function progressBar(stream: NodeJS.WriteStream = process.stderr): ProgressBar {
  if (!stream.isTTY) return { update: () => {}, stop: () => {} }
  const started = performance.now()
  let bar: { update(value: number): void; stop(): void } | undefined
  let stopped = false
  let loading = false

  const show = async () => {
    loading = true
    const { default: cliProgress } = await import('cli-progress')
    if (stopped) return
    const format = 'simulating {bar} {percentage} % | {eta_formatted} left'
    const options = { format, stream, clearOnComplete: true, hideCursor: true }
    const single = new cliProgress.SingleBar(options, cliProgress.Presets.shades_classic)
    single.start(1000, 0)
    bar = single
  }
  return {
    update: ({ doneWorkflows, totalWorkflows }) => {
      if (!loading && performance.now() - started > SHOWN_AFTER_MS) void show()
      bar?.update(Math.floor((1000 * doneWorkflows) / totalWorkflows))
    },
    stop: () => {
      stopped = true
      bar?.stop()
    },
  }
}
