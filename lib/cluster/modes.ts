/** How an engine mixes prefill and decode (docs/simulator.md). */
export const ENGINE_MODES = ['prefill-first', 'chunked', 'decode-share'] as const
export type EngineMode = (typeof ENGINE_MODES)[number]

export const DEFAULT_CHUNK_TOKENS = 512
export const DEFAULT_DECODE_SHARE = 0.5

/** A mode as the core takes it: what the mode does not use is 0. */
export interface ModeFields {
  mode: EngineMode
  /** `chunked`: tokens of an iteration's budget. */
  chunkTokens: number
  /** `decode-share`: speed of decode beside a prefill, in thousandths. */
  decodeShare: number
}

/** `decodeShare` is a fraction; what is left out has its default. */
export function modeFields(
  mode: EngineMode = 'prefill-first',
  chunkTokens = DEFAULT_CHUNK_TOKENS,
  decodeShare = DEFAULT_DECODE_SHARE,
): ModeFields {
  return {
    mode,
    chunkTokens: mode === 'chunked' ? chunkTokens : 0,
    decodeShare: mode === 'decode-share' ? Math.round(decodeShare * 1000) : 0,
  }
}
