import { isObject } from './check.ts'
import type { Place } from './place.ts'
import {
  checkColumns,
  checkFields,
  type Fields,
  filledList,
  name,
  type RecordFormat,
  tokensOrZero,
  whole,
} from './records.ts'

const STAGE = 'step'

const TREE: Fields = {
  file: name,
  query_count: tokensOrZero,
  total_tokens: tokensOrZero,
  finish: { what: 'a text or null', is: (value) => value === null || typeof value === 'string' },
  task_tokens: tokensOrZero,
  func_doc_tokens: tokensOrZero,
  nodes: filledList,
}
const NODE: Fields = {
  id: whole(0, 1e9),
  parent: whole(-1, 1e9),
  type: whole(0, 3),
  depth: whole(0, 1e9),
  'text tokens': tokensOrZero,
  'observation tokens': tokensOrZero,
  pruned: whole(0, 1),
  terminal: whole(0, 1),
}

type Node = [
  id: number,
  parent: number,
  type: number,
  depth: number,
  textTokens: number,
  observationTokens: number,
  pruned: number,
  terminal: number,
]

const ROOT = 0
const THOUGHT = 1
const ACTION_INPUT = 3

/** Whether a first line, parsed, is a tree of this format. */
export function isToolbench(value: unknown): boolean {
  return isObject(value) && 'nodes' in value && !('calls' in value)
}

/**
 * Makes a reader of ToolBench's DFSDT trees (lengths and structure). A call wrote a path of nodes, Thought, Action and
 * Action Input or a part of it; its parent is the call that wrote the node which the path continues. What was seen on
 * the way from the root is its prompt. The search visited branches one after another; the tree keeps what a call needs,
 * so branches of one node are independent.
 */
export function toolbench(): RecordFormat {
  const used = new Map<string, number>()
  return {
    idField: 'file',
    add(value, writer) {
      const { place } = writer
      const tree = checkFields(place, value, '', TREE)
      const nodes = tree.nodes as unknown[]
      checkNodes(nodes, place)

      // Files of different folders share names.
      const file = tree.file as string
      const count = (used.get(file) ?? 0) + 1
      used.set(file, count)
      writer.workflow(count === 1 ? file : `${file}#${count}`)

      const before = (tree.task_tokens as number) + (tree.func_doc_tokens as number)
      const starts = startsOf(nodes)
      const outputs = outputsOf(nodes, starts)
      // By node: what the prompt of a call after it holds, and the call that wrote it.
      const context = new Float64Array(nodes.length)
      const writtenBy = new Int32Array(nodes.length).fill(-1)
      context[0] = before
      for (let i = 1; i < nodes.length; i++) {
        const [, parent, , , textTokens, observationTokens] = nodes[i]!
        context[i] = context[parent]! + textTokens + observationTokens
        writtenBy[i] = writtenBy[parent]!
        if (starts[i] === 0) continue
        const row = {
          stage: STAGE,
          promptTokens: context[parent]!,
          // The observation after the parent was not sent yet.
          cachedTokens: parent === 0 ? 0 : context[parent]! - nodes[parent]![5],
          outputTokens: outputs[i]!,
        }
        const caller = writtenBy[parent]!
        writtenBy[i] = writer.call(row, caller < 0 ? [] : [caller], `nodes[${i}]`)
      }
    },
  }
}

function checkNodes(nodes: unknown[], place: Place): asserts nodes is Node[] {
  for (let i = 0; i < nodes.length; i++) {
    const path = `nodes[${i}]`
    const [id, parent, type] = checkColumns(place, nodes[i], path, NODE) as Node
    if (id !== i) throw place.expected(`its own index, ${i},`, `${path}[0]`, id)
    if ((type === ROOT) !== (i === 0)) {
      throw place.expected(i === 0 ? 'a root (0)' : 'a type from 1 to 3', `${path}[2]`, type)
    }
    if (i === 0 ? parent !== -1 : parent < 0 || parent >= i) {
      const what = i === 0 ? 'The root has no parent (−1)' : 'A parent is an earlier node'
      throw place.error('ERR_LAXITY_PARENT', `${path}[1]`, `${what}, got ${parent}`)
    }
  }
  if (nodes.length === 1) throw place.error('ERR_LAXITY_FIELD', 'nodes', 'The tree has no call')
}

/**
 * 1 for nodes that begin a call's path: Thoughts, what follows the root or an Action Input, and every second
 * continuation of a path.
 */
function startsOf(nodes: readonly Node[]): Uint8Array {
  const starts = new Uint8Array(nodes.length)
  const continued = new Uint8Array(nodes.length)
  for (let i = 1; i < nodes.length; i++) {
    const [, parent, type] = nodes[i]!
    const ended = parent === 0 || nodes[parent]![2] === ACTION_INPUT
    if (type === THOUGHT || ended || continued[parent] === 1) starts[i] = 1
    else continued[parent] = 1
  }
  return starts
}

/** By first node: the tokens of the path. */
function outputsOf(nodes: readonly Node[], starts: Uint8Array): Float64Array {
  const outputs = new Float64Array(nodes.length)
  const first = new Uint32Array(nodes.length)
  for (let i = 1; i < nodes.length; i++) {
    first[i] = starts[i] === 1 ? i : first[nodes[i]![1]]!
    outputs[first[i]!]! += nodes[i]![4]
  }
  return outputs
}
