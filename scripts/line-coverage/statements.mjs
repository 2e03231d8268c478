// The statements of a TypeScript file, and the lines on which they begin: V8 counts characters, and would count comments,
// blank lines and types as covered.
import ts from 'typescript'

/** Declarations that leave nothing to run. */
const SILENT = new Set([
  ts.SyntaxKind.InterfaceDeclaration,
  ts.SyntaxKind.TypeAliasDeclaration,
  ts.SyntaxKind.ImportDeclaration,
  ts.SyntaxKind.ExportDeclaration,
  ts.SyntaxKind.ModuleDeclaration,
  ts.SyntaxKind.EmptyStatement,
])
const FUNCTIONS_AND_CLASSES = new Set([ts.SyntaxKind.FunctionDeclaration, ts.SyntaxKind.ClassDeclaration])

/** What can run: its characters [from, to) and the line of the first, from 1. */
export function statements(text) {
  const source = ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest, true)
  const found = []
  const add = (node) => {
    const from = node.getStart(source)
    found.push({ from, to: node.getEnd(), line: source.getLineAndCharacterOfPosition(from).line + 1 })
  }
  const visit = (node) => {
    if (SILENT.has(node.kind)) return
    if (node.modifiers?.some((m) => m.kind === ts.SyntaxKind.DeclareKeyword)) return
    const runs =
      (ts.isStatement(node) && !ts.isBlock(node) && !FUNCTIONS_AND_CLASSES.has(node.kind)) ||
      (ts.isPropertyDeclaration(node) && node.initializer !== undefined) ||
      // A body that is an expression has no statement.
      (ts.isArrowFunction(node) && !ts.isBlock(node.body))
    if (runs) add(ts.isArrowFunction(node) ? node.body : node)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

export function statementLines(text) {
  return new Set(statements(text).map(({ line }) => line))
}
