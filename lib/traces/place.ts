import { type ErrorCode, expected, LaxityError } from '../errors.ts'

/** Where a reader is: gives its errors their `file:line: field.path`. */
export class Place {
  readonly file: string
  /** 1-based. */
  line = 1

  constructor(file: string) {
    this.file = file
  }

  /** An error at a field of the current line; an empty path means the line itself. */
  error(code: ErrorCode, path: string, message: string): LaxityError {
    const line = `${this.file}:${this.line}`
    return new LaxityError(code, message, path === '' ? line : `${line}: ${path}`)
  }

  /** "Expected `what` for the last part of `path`, got …", as ERR_LAXITY_FIELD. */
  expected(what: string, path: string, got: unknown): LaxityError {
    return this.error('ERR_LAXITY_FIELD', path, expected(what, path.slice(path.lastIndexOf('.') + 1), got))
  }

  /** An error of the input as a whole. */
  errorOfFile(code: ErrorCode, message: string): LaxityError {
    return new LaxityError(code, message, this.file)
  }
}
