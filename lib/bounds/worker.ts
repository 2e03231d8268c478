import { native } from '../native.ts'
import { type BoundAnswer, type BoundTask, computeBound } from './bound.ts'

/** What a pool's thread does with a message. */
export default function work(task: BoundTask): BoundAnswer {
  return computeBound(native, task)
}
