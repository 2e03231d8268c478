import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))

export interface Outcome {
  status: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
}

export interface Running {
  child: ChildProcess
  outcome: Promise<Outcome>
}

/** Starts the command line from its sources, in a process of its own. */
export function start(args: readonly string[], input?: string): Running {
  const child = spawn(process.execPath, ['--import=tsx', 'lib/cli/main.ts', ...args], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.on('error', () => {})
  child.stdin.end(input ?? '')
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const outcome = new Promise<Outcome>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (status, signal) => resolve({ status, signal, stdout, stderr }))
  })
  return { child, outcome }
}

export function laxity(...args: string[]): Promise<Outcome> {
  return start(args).outcome
}
