import { writeFile } from 'node:fs/promises'

// A Llama model with random weights as a GGUF file: real attention, KV cache and batching, nothing to download.
// Only letters and the space can win, so a completion is text of exactly the length asked for.

const CONTEXT = 4096
const HEADS = 4
const ALIGN = 32

/** Deterministic normal deviates (mulberry32, Box-Muller). */
function normals(seed) {
  let state = seed
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform())
}

function vocabulary() {
  const special = ['<unk>', '<s>', '</s>']
  const bytes = Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`)
  const letters = [...'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ', '▁']
  const types = [2, 3, 3, ...bytes.map(() => 6), ...letters.map(() => 1)]
  return { tokens: [...special, ...bytes, ...letters], types, firstLetter: special.length + bytes.length }
}

function u32(value) {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32LE(value)
  return bytes
}
function u64(value) {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(BigInt(value))
  return bytes
}
function text(value) {
  const bytes = Buffer.from(value)
  return Buffer.concat([u64(bytes.length), bytes])
}
function f32(values) {
  return Buffer.from(Float32Array.from(values).buffer)
}

/** Value types of GGUF. */
const KINDS = {
  u32: (v) => [u32(4), u32(v)],
  f32: (v) => [u32(6), f32([v])],
  text: (v) => [u32(8), text(v)],
  texts: (v) => [u32(9), u32(8), u64(v.length), ...v.map(text)],
  i32s: (v) => [u32(9), u32(5), u64(v.length), Buffer.from(Int32Array.from(v).buffer)],
  f32s: (v) => [u32(9), u32(6), u64(v.length), f32(v)],
}

/** Writes a model of so many blocks and such a width (a multiple of 32). */
export async function writeModel(path, { width = 64, blocks = 2, seed = 1 } = {}) {
  const normal = normals(seed)
  const { tokens, types, firstLetter } = vocabulary()
  const random = (n) => f32({ length: n, [Symbol.iterator]: () => draws(n) })
  function* draws(n) {
    for (let i = 0; i < n; i += 1) yield 0.08 * normal()
  }
  const ones = (n) => f32(new Float32Array(n).fill(1))
  const metadata = [
    ['general.architecture', 'text', 'llama'],
    ['llama.block_count', 'u32', blocks],
    ['llama.context_length', 'u32', CONTEXT],
    ['llama.embedding_length', 'u32', width],
    ['llama.feed_forward_length', 'u32', 2 * width],
    ['llama.attention.head_count', 'u32', HEADS],
    ['llama.attention.head_count_kv', 'u32', HEADS],
    ['llama.attention.layer_norm_rms_epsilon', 'f32', 1e-5],
    ['llama.rope.dimension_count', 'u32', width / HEADS],
    ['llama.vocab_size', 'u32', tokens.length],
    ['tokenizer.ggml.model', 'text', 'llama'],
    ['tokenizer.ggml.tokens', 'texts', tokens],
    ['tokenizer.ggml.scores', 'f32s', tokens.map(() => 0)],
    ['tokenizer.ggml.token_type', 'i32s', types],
    ['tokenizer.ggml.unknown_token_id', 'u32', 0],
    ['tokenizer.ggml.bos_token_id', 'u32', 1],
    ['tokenizer.ggml.eos_token_id', 'u32', 2],
  ]
  const output = random(width * tokens.length)
  output.fill(0, 0, firstLetter * width * 4) // every other token: logit 0
  const tensors = [['token_embd.weight', [width, tokens.length], random(width * tokens.length)]]
  for (let i = 0; i < blocks; i += 1) {
    tensors.push([`blk.${i}.attn_norm.weight`, [width], ones(width)])
    for (const name of ['attn_q', 'attn_k', 'attn_v', 'attn_output'])
      tensors.push([`blk.${i}.${name}.weight`, [width, width], random(width * width)])
    tensors.push([`blk.${i}.ffn_norm.weight`, [width], ones(width)])
    for (const name of ['ffn_gate', 'ffn_up'])
      tensors.push([`blk.${i}.${name}.weight`, [width, 2 * width], random(2 * width * width)])
    tensors.push([`blk.${i}.ffn_down.weight`, [2 * width, width], random(2 * width * width)])
  }
  tensors.push(
    ['output_norm.weight', [width], ones(width)],
    ['output.weight', [width, tokens.length], output],
  )

  const parts = [Buffer.from('GGUF'), u32(3), u64(tensors.length), u64(metadata.length)]
  for (const [key, kind, value] of metadata) parts.push(text(key), ...KINDS[kind](value))
  let offset = 0
  const padded = (n) => Math.ceil(n / ALIGN) * ALIGN
  for (const [name, shape, data] of tensors) {
    parts.push(text(name), u32(shape.length), ...shape.map(u64), u32(0), u64(offset))
    offset += padded(data.length)
  }
  const header = Buffer.concat(parts)
  const body = tensors.flatMap(([, , data]) => [data, Buffer.alloc(padded(data.length) - data.length)])
  await writeFile(path, [header, Buffer.alloc(padded(header.length) - header.length), ...body])
}
