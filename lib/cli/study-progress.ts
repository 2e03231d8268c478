import type { StudyProgress } from '../study/run.ts'
import { oneLine } from './errors.ts'

const BAR_AFTER_MS = 500
/** Where there is no terminal, a line this often. */
const LINE_MS = 10_000

export interface StudyReporter {
  update: (progress: StudyProgress) => void
  notice: (text: string) => void
  stop: () => void
}

/** A bar with an estimate of what is left, or lines of the same where standard error is no terminal. */
export function studyReporter(
  stream: NodeJS.WriteStream | (NodeJS.WritableStream & { isTTY?: boolean }) = process.stderr,
): StudyReporter {
  const write = (text: string) => stream.write(`${oneLine(`laxity: ${text}`)}\n`)
  if (!stream.isTTY) {
    let last = performance.now()
    return {
      update: (progress) => {
        const now = performance.now()
        if (now - last < LINE_MS) return
        last = now
        write(progressText(progress))
      },
      notice: write,
      stop: () => {},
    }
  }
  const started = performance.now()
  let bar:
    | { update(value: number, payload: object): void; stop(): void; setTotal(n: number): void }
    | undefined
  let stopped = false
  let loading = false
  let latest: StudyProgress | undefined
  const show = async () => {
    loading = true
    const { default: cliProgress } = await import('cli-progress')
    if (stopped || latest === undefined) return
    const format = 'study {bar} {percentage} % | {value}/{total} runs | {left}'
    const options = { format, stream, clearOnComplete: true, hideCursor: true }
    const single = new cliProgress.SingleBar(options, cliProgress.Presets.shades_classic)
    single.start(latest.totalRuns, latest.doneRuns, { left: leftText(latest) })
    bar = single
  }
  return {
    update: (progress) => {
      latest = progress
      if (!loading && performance.now() - started > BAR_AFTER_MS) void show()
      bar?.update(progress.doneRuns, { left: leftText(progress) })
    },
    notice: (text) => {
      if (bar !== undefined) stream.write('\r\u001b[K')
      write(text)
    },
    stop: () => {
      stopped = true
      bar?.stop()
    },
  }
}

/** `1,200 of 10,000 runs (12 %), about 40 s left`. */
export function progressText(progress: StudyProgress): string {
  const { doneRuns, totalRuns } = progress
  const percent = Math.floor((100 * doneRuns) / totalRuns)
  return `${doneRuns.toLocaleString('en')} of ${totalRuns.toLocaleString('en')} runs (${percent} %), ${leftText(progress)}`
}

function leftText({ remainingMs }: StudyProgress): string {
  if (remainingMs === undefined) return 'time left unknown'
  const seconds = Math.round(remainingMs / 1000)
  if (seconds < 60) return `about ${seconds} s left`
  const minutes = Math.round(seconds / 60)
  return minutes < 60
    ? `about ${minutes} min left`
    : `about ${Math.floor(minutes / 60)} h ${minutes % 60} min left`
}
