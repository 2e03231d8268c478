// The lines of a TypeScript file on which a statement begins: V8 counts characters, and would count comments, blank
// lines and types as covered.
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

export function statementLines(text) {
  const source = ts.createSourceFile('file.ts', text, ts.ScriptTarget.Latest, true)
  const lines = new Set()
  const add = (node) => lines.add(source.getLineAndCharacterOfPosition(node.getStart(source)).line + 1)
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
  return lines
}
