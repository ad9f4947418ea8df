// Starts `cep lsp`, and runs tests of rules.

import { spawn } from "node:child_process";
import * as path from "node:path";
import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";

const TEST_FILES = "**/*.test.yaml";
const NAME = /^\s*-\s+(?:name:\s*(?:"([^"]*)"|'([^']*)'|(.+?))\s*(?:\s#.*)?$|\{\s*name:\s*(?:"([^"]*)"|'([^']*)'|([^,}]*[^,}\s])))/;

let client: LanguageClient | undefined;

interface Failure {
  message: string;
  line: number;
  details: string[];
}

/** A test in the report of `cep test --json`. */
interface Reported {
  file: string;
  name: string;
  passed: boolean;
  failures: Failure[];
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const output = vscode.window.createOutputChannel("semcep");
  context.subscriptions.push(
    output,
    vscode.commands.registerCommand("semcep.restart", async () => {
      await client?.stop();
      await start(output);
    }),
    vscode.commands.registerCommand("semcep.test", () => runInTerminal()),
  );
  registerTests(context, output);
  await start(output);
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

/** The command and the words before its own. */
function command(): [string, string[]] {
  const [first = "cep", ...more] = vscode.workspace.getConfiguration("semcep").get<string[]>("command", ["cep"]);
  return [first, more];
}

async function start(output: vscode.OutputChannel): Promise<void> {
  const [first, more] = command();
  const languages = ["cep", "cep-dialect"];
  client = new LanguageClient(
    "semcep",
    { command: first, args: [...more, "lsp"] },
    {
      documentSelector: languages.map((language) => ({ language })),
      initializationOptions: { knowledge: vscode.workspace.getConfiguration("semcep").get<string[]>("knowledge", []) },
      outputChannel: output,
      synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{cep,ttl,test.yaml}") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const hint = "Install semcep with its extra `editor`, and name the command in the setting `semcep.command`.";
    void vscode.window.showErrorMessage(`\`${first} lsp\` does not start: ${String(error)}. ${hint}`);
  }
}

/** Run the tests beside a program in a terminal. */
function runInTerminal(): void {
  const file = vscode.window.activeTextEditor?.document.uri.fsPath;
  const folder = file === undefined ? undefined : path.dirname(file);
  const [first, more] = command();
  const terminal = vscode.window.createTerminal({ name: "cep test", cwd: folder, shellPath: first, shellArgs: [...more, "test"] });
  terminal.show();
}

// -- tests, each with its button

function registerTests(context: vscode.ExtensionContext, output: vscode.OutputChannel): void {
  const controller = vscode.tests.createTestController("semcep", "Event rules");
  context.subscriptions.push(controller);

  const read = async (uri: vscode.Uri): Promise<void> => {
    const text = new TextDecoder().decode(await vscode.workspace.fs.readFile(uri));
    list(controller, uri, text);
  };
  controller.resolveHandler = async (item) => {
    if (item?.uri !== undefined) {
      await read(item.uri);
      return;
    }
    for (const uri of await vscode.workspace.findFiles(TEST_FILES, "**/node_modules/**")) {
      await read(uri);
    }
  };
  const watcher = vscode.workspace.createFileSystemWatcher(TEST_FILES);
  watcher.onDidCreate(read);
  watcher.onDidChange(read);
  watcher.onDidDelete((uri) => controller.items.delete(uri.toString()));
  context.subscriptions.push(watcher);
  for (const document of vscode.workspace.textDocuments) {
    listOpen(controller, document);
  }
  context.subscriptions.push(
    vscode.workspace.onDidOpenTextDocument((document) => listOpen(controller, document)),
    vscode.workspace.onDidChangeTextDocument((change) => listOpen(controller, change.document)),
  );
  controller.createRunProfile(
    "Run",
    vscode.TestRunProfileKind.Run,
    (request, token) => run(controller, request, token, output),
    true,
  );
}

function listOpen(controller: vscode.TestController, document: vscode.TextDocument): void {
  if (document.uri.scheme === "file" && document.fileName.endsWith(".test.yaml")) {
    list(controller, document.uri, document.getText());
  }
}

/** Put the tests of a file below the item of the file. */
function list(controller: vscode.TestController, uri: vscode.Uri, text: string): void {
  if (!/^program:/m.test(text)) {
    controller.items.delete(uri.toString());
    return;
  }
  const file = controller.items.get(uri.toString()) ?? controller.createTestItem(uri.toString(), path.basename(uri.fsPath), uri);
  const tests: vscode.TestItem[] = [];
  text.split(/\r?\n/).forEach((line, number) => {
    const name = NAME.exec(line)?.slice(1).find((each) => each !== undefined);
    if (name !== undefined) {
      const item = controller.createTestItem(`${uri.toString()}#${name}`, name, uri);
      item.range = new vscode.Range(number, 0, number, line.length);
      tests.push(item);
    }
  });
  file.children.replace(tests);
  controller.items.add(file);
}

async function run(
  controller: vscode.TestController,
  request: vscode.TestRunRequest,
  token: vscode.CancellationToken,
  output: vscode.OutputChannel,
): Promise<void> {
  const testRun = controller.createTestRun(request);
  const files = new Map<string, vscode.TestItem[]>();
  const take = (item: vscode.TestItem): void => {
    if (item.children.size > 0) {
      item.children.forEach(take);
    } else if (item.uri !== undefined && !request.exclude?.includes(item)) {
      const items = files.get(item.uri.fsPath) ?? [];
      items.push(item);
      files.set(item.uri.fsPath, items);
      testRun.enqueued(item);
    }
  };
  if (request.include === undefined) {
    controller.items.forEach(take);
  } else {
    request.include.forEach(take);
  }
  for (const [file, items] of files) {
    if (token.isCancellationRequested) {
      break;
    }
    await runFile(testRun, file, items, token, output);
  }
  testRun.end();
}

async function runFile(
  testRun: vscode.TestRun,
  file: string,
  items: vscode.TestItem[],
  token: vscode.CancellationToken,
  output: vscode.OutputChannel,
): Promise<void> {
  items.forEach((item) => testRun.started(item));
  const [first, more] = command();
  const only = items.length === 1 && items[0] !== undefined ? ["-k", items[0].label] : [];
  const begun = Date.now();
  const [text, errors] = await outputOf(first, [...more, "test", file, "--json", ...only], path.dirname(file), token);
  let reported: Reported[];
  try {
    reported = (JSON.parse(text) as { tests: Reported[] }).tests;
  } catch {
    output.appendLine(errors);
    items.forEach((item) => testRun.errored(item, new vscode.TestMessage(errors || `\`${first} test\` said nothing`)));
    return;
  }
  const seconds = (Date.now() - begun) / Math.max(1, reported.length);
  for (const item of items) {
    const found = reported.find((each) => each.name === item.label);
    if (found === undefined) {
      testRun.skipped(item);
    } else if (found.passed) {
      testRun.passed(item, seconds);
    } else {
      testRun.failed(item, messages(item, found), seconds);
    }
  }
}

function messages(item: vscode.TestItem, found: Reported): vscode.TestMessage[] {
  return found.failures.map((failure) => {
    const message = new vscode.TestMessage([failure.message, ...failure.details].join("\n"));
    if (item.uri !== undefined) {
      message.location = new vscode.Location(item.uri, new vscode.Position(failure.line - 1, 0));
    }
    return message;
  });
}

/** What a command prints, on standard output and on standard error. */
function outputOf(first: string, words: string[], cwd: string, token: vscode.CancellationToken): Promise<[string, string]> {
  return new Promise((resolve) => {
    const child = spawn(first, words, { cwd });
    let text = "";
    let errors = "";
    child.stdout.on("data", (data) => (text += String(data)));
    child.stderr.on("data", (data) => (errors += String(data)));
    child.on("error", (error) => resolve(["", String(error)]));
    child.on("close", () => resolve([text, errors]));
    token.onCancellationRequested(() => child.kill());
  });
}
