/** Writes a Llama model with random weights as a GGUF file; `width` is a multiple of 32. */
export function writeModel(
  path: string,
  shape?: { width?: number; blocks?: number; seed?: number },
): Promise<void>
