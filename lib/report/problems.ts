import { type ErrorCode, LaxityError } from '../errors.ts'

/** More problems than this are counted, not listed. */
const LISTED = 20

/**
 * Collects everything that is wrong with an input, so that it is reported at once: one problem becomes one plain
 * error, several become one error that lists them (each, with its own code and place, under `cause.errors`).
 */
export class Problems {
  readonly #found: LaxityError[] = []

  get count(): number {
    return this.#found.length
  }

  get messages(): string[] {
    return this.#found.map(({ message }) => message)
  }

  add(code: ErrorCode, message: string, place?: string): void {
    this.#found.push(new LaxityError(code, message, place))
  }

  /** Takes over an error thrown by a part; anything but a LaxityError is a fault and thrown on. */
  absorb(error: unknown): void {
    if (!(error instanceof LaxityError)) throw error
    const parts = error.cause instanceof AggregateError ? (error.cause.errors as LaxityError[]) : [error]
    this.#found.push(...parts)
  }

  throwIfAny(): void {
    const [first] = this.#found
    if (first === undefined) return
    if (this.#found.length === 1) throw first
    const listed = this.#found.slice(0, LISTED).map((problem) => problem.message)
    if (this.#found.length > LISTED) listed.push(`and ${this.#found.length - LISTED} more`)
    throw new LaxityError(first.code, `${this.#found.length} problems: ${listed.join('; ')}`, undefined, {
      cause: new AggregateError(this.#found),
    })
  }
}
