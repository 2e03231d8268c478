import { type ErrorCode, LaxityError } from '../errors.ts'

/** A call that was turned away. What a 429 or 503 needs stands in `retryAfterMs`. */
export class RejectionError extends LaxityError {
  readonly retryAfterMs: number | undefined

  constructor(code: ErrorCode, message: string, retryAfterMs: number | undefined) {
    super(code, message)
    this.retryAfterMs = retryAfterMs
  }
}

/** `RejectReason` of native/scheduler/events.h. */
export const REJECT_REASONS: readonly { name: string; code: ErrorCode; message: string; retry: boolean }[] = [
  { name: 'none', code: 'ERR_LAXITY_NATIVE', message: 'Rejected', retry: false },
  {
    name: 'never-fits',
    code: 'ERR_LAXITY_NEVER_FITS',
    message: 'The call needs more KV cache than any instance of its model has',
    retry: false,
  },
  {
    name: 'no-instance',
    code: 'ERR_LAXITY_NO_INSTANCE',
    message: 'No instance serves this model',
    retry: false,
  },
  { name: 'queue-full', code: 'ERR_LAXITY_QUEUE_FULL', message: 'Too many calls wait already', retry: true },
  {
    name: 'queue-timeout',
    code: 'ERR_LAXITY_QUEUE_TIMEOUT',
    message: 'The call waited too long for an instance',
    retry: true,
  },
  {
    name: 'deadline',
    code: 'ERR_LAXITY_DEADLINE',
    message: 'The call would miss its deadline even on an idle instance',
    retry: true,
  },
  {
    name: 'lost',
    code: 'ERR_LAXITY_LOST',
    message: 'The lease gave no sign of life for its TTL',
    retry: false,
  },
]
