/**
 * The parents of call i are `parents[offset[i]] … parents[offset[i + 1] − 1]`, as positions in the same workflow. Gives
 * an order in which every call comes after its parents: each call keeps its place, except that ancestors listed later
 * move in front of it. Linear time. Where parents form a cycle, the calls on it are given instead, each a parent of
 * the one before it (and the first a parent of the last).
 */
export function topologicalOrder(
  calls: number,
  offset: Uint32Array,
  parents: Uint32Array,
): { order: Uint32Array } | { cycle: number[] } {
  const order = new Uint32Array(calls)
  // How many parents of each call were looked at.
  const next = new Uint32Array(calls)
  const onPath = new Uint8Array(calls)
  const done = new Uint8Array(calls)
  // path[i + 1] is a parent of path[i].
  const path: number[] = []
  let placed = 0
  for (let root = 0; root < calls; root++) {
    if (done[root] === 1) continue
    path.push(root)
    onPath[root] = 1
    while (path.length > 0) {
      const call = path[path.length - 1]!
      const at = offset[call]! + next[call]!
      if (at === offset[call + 1]) {
        path.pop()
        done[call] = 1
        order[placed++] = call
        continue
      }
      next[call]!++
      const parent = parents[at]!
      if (done[parent] === 1) continue
      if (onPath[parent] === 1) return { cycle: path.slice(path.indexOf(parent)) }
      path.push(parent)
      onPath[parent] = 1
    }
  }
  return { order }
}
