import { CommanderError } from 'commander'
import { LaxityError } from '../errors.ts'
import { errorLine, oneLine } from './errors.ts'
import { createProgram } from './program.ts'

const OK = 0
const FAULT = 1
const BAD_INPUT = 2
const INTERRUPTED = 130

/** Runs the command line and returns the exit status. Standard output gets the whole answer or nothing. */
export async function run(argv: readonly string[]): Promise<number> {
  const controller = new AbortController()
  const { signal } = controller
  const interrupt = () => {
    // Whoever presses twice does not want to wait for threads to end.
    if (signal.aborted) process.exit(INTERRUPTED)
    controller.abort()
  }
  process.on('SIGINT', interrupt)
  process.stdout.on('error', outputFailed)
  try {
    await createProgram({ signal, print }).parseAsync(argv.length === 0 ? ['--help'] : argv, { from: 'user' })
    return OK
  } catch (error) {
    if (signal.aborted) return INTERRUPTED
    return report(error)
  } finally {
    process.off('SIGINT', interrupt)
  }
}

/** Everything written so far has left the process. */
export async function flush(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) {
    await new Promise((resolve) => stream.write('', resolve))
  }
}

/** A reader that has seen enough, as in `laxity … | head`, is no error; a full disk is. */
function outputFailed(error: NodeJS.ErrnoException): never {
  if (error.code === 'EPIPE') process.exit(OK)
  report(
    new LaxityError(
      'ERR_LAXITY_FILE',
      `Cannot be written (${error.code ?? error.message})`,
      'standard output',
    ),
  )
  process.exit(BAD_INPUT)
}

function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()))
  })
}

function report(error: unknown): number {
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return OK
    const message = error.message.replace(/^error: /, '')
    process.stderr.write(`${oneLine(`laxity: ${message} [ERR_LAXITY_OPTION]`)}\n`)
    return BAD_INPUT
  }
  if (error instanceof LaxityError) {
    process.stderr.write(`${errorLine(error)}\n`)
    return BAD_INPUT
  }
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(`${oneLine(`laxity: ${message.replace(/^laxity: /, '')}`)}\n`)
  if (process.env.LAXITY_DEBUG) process.stderr.write(`${error instanceof Error ? error.stack : ''}\n`)
  return FAULT
}
