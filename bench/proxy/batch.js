/**
 * A prefill-first engine in its own time, as docs/simulator.md has it: at each boundary the head of the queue is prefilled
 * alone where it fits, else every running call makes a token. KV is taken for the prompt and grows by a token per token; before an
 * iteration that would exceed it, the calls that joined last go back to the head of the queue, to be prefilled with what they
 * had made. Boundaries keep their exact times however late the timers are.
 */
export class Batch {
  #latency
  #kvTokens
  #maxSequences
  #nowMs
  #wait
  #queue = []
  #running = []
  #kv = 0
  #peak = 0
  #evicted = 0
  #atMs = 0
  #active = false

  /** `latency` in ms: constants. `wait(callback, ms)` calls back no earlier than that. */
  constructor({ latency, kvTokens, maxSequences }, nowMs, wait) {
    this.#latency = latency
    this.#kvTokens = kvTokens
    this.#maxSequences = maxSequences
    this.#nowMs = nowMs
    this.#wait = wait
  }

  get state() {
    return {
      waiting: this.#queue.length,
      running: this.#running.length,
      kv: this.#kv,
      kvPeak: this.#peak,
      evicted: this.#evicted,
    }
  }

  /** `token(made, atMs)` with every token. Undefined where it never fits. */
  add(promptTokens, outputTokens, token) {
    if (promptTokens + outputTokens > this.#kvTokens) return undefined
    const job = { context: promptTokens, outputTokens, made: 0, token }
    this.#queue.push(job)
    if (!this.#active) {
      this.#active = true
      this.#atMs = Math.max(this.#atMs, this.#nowMs())
      this.#begin()
    }
    return job
  }

  /** Whether it was there. */
  remove(job) {
    for (const list of [this.#queue, this.#running]) {
      const i = list.indexOf(job)
      if (i < 0) continue
      list.splice(i, 1)
      if (list === this.#running) this.#take(-job.context)
      return true
    }
    return false
  }

  #take(tokens) {
    this.#kv += tokens
    this.#peak = Math.max(this.#peak, this.#kv)
  }

  #begin() {
    const [head] = this.#queue
    const fits = head !== undefined && this.#kv + head.context + 1 <= this.#kvTokens
    if (fits && this.#running.length < this.#maxSequences) this.#prefill(this.#queue.shift())
    else if (this.#running.length > 0) this.#iterate()
    else this.#active = false
  }

  #prefill(job) {
    const { prefillBaseMs = 0, prefillPerTokenMs } = this.#latency
    this.#running.push(job)
    this.#take(job.context)
    this.#end(prefillBaseMs + prefillPerTokenMs * job.context, () => this.#advance(job))
  }

  #iterate() {
    while (this.#kv + this.#running.length > this.#kvTokens) {
      const last = this.#running.pop()
      this.#take(-last.context)
      this.#queue.unshift(last)
      this.#evicted += 1
    }
    const { decodeBaseMs, decodePerSequenceMs = 0, decodePerContextMs = 0 } = this.#latency
    const batch = [...this.#running]
    const ms = decodeBaseMs + decodePerSequenceMs * (batch.length - 1) + decodePerContextMs * this.#kv
    this.#end(ms, () => {
      for (const job of batch) this.#advance(job)
    })
  }

  #end(ms, then) {
    this.#atMs += ms
    this.#wait(() => {
      then()
      this.#begin()
    }, this.#atMs - this.#nowMs())
  }

  /** Another token of it, unless it was removed meanwhile. */
  #advance(job) {
    if (!this.#running.includes(job)) return
    job.context += 1
    job.made += 1
    this.#take(1)
    if (job.made === job.outputTokens) this.remove(job)
    job.token(job.made, this.#atMs)
  }
}
