import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { headerLine, traceJsonSchema, workflowLine } from '../../../lib/traces/schema.ts'
import { repositoryFile } from './shared.ts'

describe('schemas/trace.schema.json', () => {
  it('is current (npm run schemas)', () => {
    const published = JSON.parse(readFileSync(repositoryFile('schemas/trace.schema.json'), 'utf8'))
    assert.deepEqual(published, JSON.parse(JSON.stringify(traceJsonSchema())))
  })

  it('accepts the lines of the shipped example and of the documentation', () => {
    const example = readFileSync(repositoryFile('examples/trace.jsonl'), 'utf8')
    const page = readFileSync(repositoryFile('docs/trace-format.md'), 'utf8')
    const block = /```jsonl\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
    for (const text of [example, block]) {
      const [header, ...lines] = text.trim().split('\n')
      headerLine.parse(JSON.parse(header!))
      assert.ok(lines.length > 0)
      for (const line of lines) workflowLine.parse(JSON.parse(line))
    }
  })
})
