import { workerData } from 'node:worker_threads'
import { native } from '../native.ts'
import { runInBackground } from './background.ts'
import { type Cache, type Chunk, type ChunkResult, runChunk } from './chunk.ts'
import type { WorkerData } from './pool.ts'

if ((workerData as WorkerData).background) runInBackground()

const cache: Cache = {}

/** What a pool's thread does with a message. */
export default function work(chunk: Chunk): ChunkResult {
  return runChunk(native, cache, chunk)
}
