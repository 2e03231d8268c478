// The exact greedy of the pair planner in plain JavaScript, written to be fast: flat typed arrays, one representative per
// prefill class, decode instances of a class in ascending time per token with an early stop, a best pair kept until a commit touches it,
// binary search along the releases. A state comes from native.plannerState; the plan must be the native one.

const UNIT = 2 ** 20 // decode coefficients are in 2^-20 ns

export class GreedyPlanner {
  constructor(state) {
    this.state = state
    const { prefill, decode, calls } = state
    this.prefillClasses = calls.prefill.length / calls.kv.length
    this.decodeClasses = decode.base.length
    this.ready = new Float64Array(prefill.ready.length)
    this.members = byClass(prefill, this.prefillClasses)
    this.representative = new Int32Array(this.prefillClasses)
    this.used = new Float64Array(decode.used.length)
    this.batch = new Float64Array(decode.used.length)
    this.context = new Float64Array(decode.used.length)
    this.perToken = new Float64Array(decode.used.length)
    this.lists = byClass(decode, this.decodeClasses)
    // Room for every call on every instance.
    const room =
      Math.max(...decode.releaseOffset.map((to, i, all) => (i === 0 ? 0 : to - all[i - 1]))) + calls.kv.length
    this.room = room
    this.releaseTime = new Float64Array(room * decode.used.length)
    this.released = new Float64Array(room * decode.used.length)
    this.releases = new Int32Array(decode.used.length)
    const n = calls.kv.length
    this.bestFinish = new Float64Array(n)
    this.bestReady = new Float64Array(n)
    this.bestEnd = new Float64Array(n)
    this.bestP = new Int32Array(n)
    this.bestD = new Int32Array(n)
    this.score = new Float64Array(n)
    this.waiting = new Int32Array(n)
    this.out = {
      call: new Int32Array(n),
      prefill: new Int32Array(n),
      decode: new Int32Array(n),
      finish: new Float64Array(n),
    }
  }

  /** Brings back the state before the last plan. */
  reset() {
    const { prefill, decode } = this.state
    this.ready.set(prefill.ready)
    this.used.set(decode.used)
    this.batch.set(decode.batch)
    this.context.set(decode.context)
    for (let d = 0; d < decode.used.length; d++) {
      const from = decode.releaseOffset[d]
      const count = decode.releaseOffset[d + 1] - from
      this.releases[d] = count
      const order = Array.from({ length: count }, (_, i) => from + i)
      order.sort((a, b) => decode.releaseTime[a] - decode.releaseTime[b])
      let sum = 0
      for (let i = 0; i < count; i++) {
        sum += decode.releaseKv[order[i]]
        this.releaseTime[d * this.room + i] = decode.releaseTime[order[i]]
        this.released[d * this.room + i] = sum
      }
      this.reprice(d)
    }
    for (const list of this.lists) list.sort((a, b) => this.before(a, b))
    for (let h = 0; h < this.prefillClasses; h++) this.elect(h)
  }

  plan() {
    const { calls } = this.state
    const { waiting, score, out } = this
    let left = calls.kv.length
    for (let i = 0; i < left; i++) {
      waiting[i] = i
      this.evaluate(i)
    }
    let length = 0
    while (left > 0) {
      let at = 0
      for (let i = 1; i < left; i++) if (this.first(waiting[i], waiting[at])) at = i
      const call = waiting[at]
      if (score[call] === Number.NEGATIVE_INFINITY) break
      waiting[at] = waiting[--left]
      const p = this.bestP[call]
      const d = this.bestD[call]
      out.call[length] = call
      out.prefill[length] = p
      out.decode[length] = d
      out.finish[length++] = this.bestFinish[call]
      this.commit(call, p, d)
      for (let i = 0; i < left; i++)
        if (this.bestP[waiting[i]] === p || this.bestD[waiting[i]] === d) this.evaluate(waiting[i])
    }
    return length
  }

  first(a, b) {
    const { score } = this
    const { arrival, rank } = this.state.calls
    if (score[a] !== score[b]) return score[a] > score[b]
    return arrival[a] !== arrival[b] ? arrival[a] < arrival[b] : rank[a] < rank[b]
  }

  before(a, b) {
    const rank = this.state.decode.rank
    return this.perToken[a] - this.perToken[b] || rank[a] - rank[b]
  }

  reprice(d) {
    const { decode } = this.state
    const k = decode.hardwareClass[d]
    const fine =
      decode.base[k] + decode.perSequence[k] * (this.batch[d] + 1) + decode.perContext[k] * this.context[d]
    this.perToken[d] = Math.max(1, Math.floor(fine / UNIT + 0.5))
  }

  /** The member of the class that is ready first. */
  elect(h) {
    const { t, prefill } = this.state
    let best = -1
    for (const p of this.members[h]) {
      const ready = Math.max(this.ready[p], t)
      const least = best < 0 ? Number.POSITIVE_INFINITY : Math.max(this.ready[best], t)
      if (ready < least || (ready === least && prefill.rank[p] < prefill.rank[best])) best = p
    }
    this.representative[h] = best
  }

  /** When `kv` tokens fit on d; infinity = never. */
  wait(d, kv) {
    const free = this.state.decode.capacity[d] - this.used[d]
    if (kv <= free) return 0
    if (kv > this.state.decode.capacity[d]) return Number.POSITIVE_INFINITY
    const from = d * this.room
    let low = 0
    let high = this.releases[d]
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.released[from + middle] >= kv - free) high = middle
      else low = middle + 1
    }
    return low === this.releases[d] ? Number.POSITIVE_INFINITY : this.releaseTime[from + low]
  }

  evaluate(call) {
    const { t, prefill, calls } = this.state
    const { prefillClasses, decodeClasses } = this
    const kv = calls.kv[call]
    const output = calls.output[call]
    let bestFinish = Number.POSITIVE_INFINITY
    let bestReady = 0
    let bestEnd = 0
    let bestP = -1
    let bestD = -1
    for (let g = 0; g < decodeClasses; g++) {
      let ready = Number.POSITIVE_INFINITY
      let end = 0
      let source = -1
      for (let h = 0; h < prefillClasses; h++) {
        const p = this.representative[h]
        if (p < 0) continue
        const done = Math.max(this.ready[p], t) + calls.prefill[call * prefillClasses + h]
        const arrives = done + calls.transfer[(call * prefillClasses + h) * decodeClasses + g]
        if (arrives < ready || (arrives === ready && source >= 0 && prefill.rank[p] < prefill.rank[source])) {
          ready = arrives
          end = done
          source = p
        }
      }
      if (source < 0) continue
      const list = this.lists[g]
      for (let i = 0; i < list.length; i++) {
        const d = list[i]
        const service = output * this.perToken[d]
        if (ready + service > bestFinish) break
        const wait = this.wait(d, kv)
        if (wait === Number.POSITIVE_INFINITY) continue
        const finish = Math.max(ready, wait) + service
        if (
          finish < bestFinish ||
          (finish === bestFinish && this.wins(ready, d, source, bestReady, bestD, bestP))
        ) {
          bestFinish = finish
          bestReady = ready
          bestEnd = end
          bestP = source
          bestD = d
        }
        if (wait <= ready) break
      }
    }
    this.bestFinish[call] = bestFinish
    this.bestReady[call] = bestReady
    this.bestEnd[call] = bestEnd
    this.bestP[call] = bestP
    this.bestD[call] = bestD
    this.score[call] =
      bestD < 0 ? Number.NEGATIVE_INFINITY : (bestFinish - calls.arrival[call]) * calls.inverseHorizon[call]
  }

  wins(ready, d, p, otherReady, otherD, otherP) {
    const { prefill, decode } = this.state
    if (ready !== otherReady) return ready < otherReady
    if (d !== otherD) return decode.rank[d] < decode.rank[otherD]
    return prefill.rank[p] < prefill.rank[otherP]
  }

  commit(call, p, d) {
    const { prefill, decode, calls } = this.state
    this.ready[p] = this.bestEnd[call]
    this.elect(prefill.hardwareClass[p])
    const kv = calls.kv[call]
    const finish = this.bestFinish[call]
    this.used[d] += kv
    this.context[d] += kv
    this.batch[d] += 1
    const from = d * this.room
    let i = this.releases[d]++
    for (; i > 0 && this.releaseTime[from + i - 1] > finish; i--) {
      this.releaseTime[from + i] = this.releaseTime[from + i - 1]
      this.released[from + i] = this.released[from + i - 1] + kv
    }
    this.releaseTime[from + i] = finish
    this.released[from + i] = (i > 0 ? this.released[from + i - 1] : 0) + kv
    this.reprice(d)
    const list = this.lists[decode.hardwareClass[d]]
    let at = list.indexOf(d)
    for (; at + 1 < list.length && this.before(list[at + 1], d) < 0; at++) list[at] = list[at + 1]
    list[at] = d
  }
}

function byClass(pool, classes) {
  const lists = Array.from({ length: classes }, () => [])
  for (let i = 0; i < pool.hardwareClass.length; i++) lists[pool.hardwareClass[i]].push(i)
  for (const list of lists) list.sort((a, b) => pool.rank[a] - pool.rank[b])
  return lists
}
