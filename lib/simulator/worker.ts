import { native } from '../native.ts'
import { type Cache, type Chunk, type ChunkResult, runChunk } from './chunk.ts'

const cache: Cache = {}

/** What a pool's thread does with a message. */
export default function work(chunk: Chunk): ChunkResult {
  return runChunk(native, cache, chunk)
}
