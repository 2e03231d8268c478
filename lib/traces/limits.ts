/** Largest prompt, cached, output or predicted length of a call, in tokens (`kMaxTokens` of native/workload/trace.h). */
export const MAX_TOKENS = 100_000_000

/** Longest name or id, in UTF-16 code units. */
export const MAX_NAME = 256

/** Longest JSONL line, and largest HexGen-Flow array element, in bytes. */
export const MAX_LINE_BYTES = 16 * 2 ** 20

/** Distinct stages, models, tenants: their ids are 16 bits wide, and the last value stays free. */
export const MAX_NAMES = 65_535

export const MAX_WORKFLOW_CALLS = 65_536

/**
 * HexGen-Flow's stages imply a parent for every pair of neighbours, so edges need a bound of their own. A JSONL line has no
 * room for as many: a parent takes four bytes of it.
 */
export const MAX_WORKFLOW_EDGES = 2 ** 22

export const MAX_CALLS = 2 ** 26
export const MAX_EDGES = 2 ** 28

/** Arrivals may be Unix times; in nanoseconds they must fit 64 signed bits with room for the run. */
export const MAX_ARRIVAL_MS = 4e12

/** Tool gaps and SLOs, about 11 days. */
export const MAX_DURATION_MS = 1e9
