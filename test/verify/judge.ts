import type { Counts } from './counts.ts'
import type { Outcome } from './page.ts'

/**
 * What a step that was run has come to. It fails by its exit code, by a finding or failure it printed, and where it says
 * nothing of what it did: a step that ran no test has proved nothing.
 */
export function judge(status: number, counts: Counts): Pick<Outcome, 'state' | 'why' | 'counts'> {
  const { numbers, skipped } = counts
  if (status !== 0) return { state: 'failed', why: `exit code ${status}`, counts }
  for (const bad of ['failed', 'findings', 'slower'])
    if ((numbers[bad] ?? 0) > 0) return { state: 'failed', why: `${numbers[bad]} ${bad}`, counts }
  if (skipped !== undefined) return { state: 'skipped', why: skipped, counts }
  if (!counts.text && !Object.values(numbers).some((n) => n > 0))
    return { state: 'failed', why: 'it does not say what it did', counts }
  return { state: 'proved', counts }
}
