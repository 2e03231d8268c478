import { LaxityError } from '../errors.ts'
import { checkUrl, publicUrl } from '../study/redis.ts'
import { runWorker } from '../study/worker.ts'
import type { Context } from './context.ts'
import { oneLine } from './errors.ts'

export interface WorkerFlags {
  redis?: string
  concurrency?: unknown
  lockMs?: unknown
  quiet?: boolean
}

/** Serves until it is told to end: by Ctrl-C, or by SIGTERM as from a cluster's manager. */
export async function workerCommand(flags: WorkerFlags, context: Context): Promise<void> {
  if (flags.redis === undefined) throw new LaxityError('ERR_LAXITY_OPTION', '`redis` is needed', 'redis')
  checkUrl(flags.redis)
  const url = flags.redis
  const ending = new AbortController()
  const terminate = () => ending.abort()
  process.on('SIGTERM', terminate)
  const say = (text: string) => process.stderr.write(`${oneLine(`laxity: ${text}`)}\n`)
  const note = flags.quiet ? () => {} : say
  try {
    await runWorker({
      url,
      concurrency: flags.concurrency,
      lockMs: flags.lockMs,
      signal: AbortSignal.any([context.signal, ending.signal]),
      onNotice: say,
      onReady: () => note(`worker ${process.pid} serves ${publicUrl(url)}`),
      onChunk: ({ study, from, to, cpuMs }) =>
        note(`study ${study}: runs ${from} to ${to - 1} in ${Math.round(cpuMs)} ms`),
    })
  } finally {
    process.off('SIGTERM', terminate)
  }
}
