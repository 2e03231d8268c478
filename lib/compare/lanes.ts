/**
 * Runs the jobs in order, at most `lanes` at once. After a failure no further job starts and `stop` is called, so that
 * those under way may end early; then the first failure is thrown.
 */
export async function inLanes<T>(
  lanes: number,
  jobs: readonly (() => Promise<T>)[],
  stop: () => void,
): Promise<T[]> {
  const results: T[] = []
  const failures: unknown[] = []
  let next = 0
  const lane = async () => {
    while (next < jobs.length && failures.length === 0) {
      const job = next++
      try {
        results[job] = await jobs[job]!()
      } catch (error) {
        failures.push(error)
        stop()
      }
    }
  }
  await Promise.all(Array.from({ length: Math.max(1, lanes) }, lane))
  if (failures.length > 0) throw failures[0]
  return results
}
