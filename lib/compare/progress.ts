import type { Progress } from '../simulator/options.ts'

const PROGRESS_MS = 100

/** Joins the progress of many runs into that of all, at most ten times a second. */
export class Progresses {
  totalWorkflows = 0
  totalRuns = 0
  readonly #onProgress: ((progress: Progress) => void) | undefined
  #doneWorkflows = 0
  #doneRuns = 0
  #last = Number.NEGATIVE_INFINITY

  constructor(onProgress: ((progress: Progress) => void) | undefined) {
    this.#onProgress = onProgress
  }

  /** A run of so many workflows begins; what it tells of itself goes to the function returned. */
  add(workflows: number): (progress: Progress) => void {
    let workflowsBefore = 0
    let runsBefore = 0
    return ({ doneWorkflows, doneRuns }) => {
      const now = Math.min(workflows, Math.max(workflowsBefore, doneWorkflows))
      this.#doneWorkflows += now - workflowsBefore
      this.#doneRuns += doneRuns - runsBefore
      workflowsBefore = now
      runsBefore = doneRuns
      this.#report()
    }
  }

  #report(): void {
    const now = performance.now()
    if (this.#onProgress === undefined || now - this.#last < PROGRESS_MS) return
    this.#last = now
    this.#onProgress({
      doneRuns: this.#doneRuns,
      totalRuns: this.totalRuns,
      doneWorkflows: this.#doneWorkflows,
      totalWorkflows: this.totalWorkflows,
    })
  }
}
