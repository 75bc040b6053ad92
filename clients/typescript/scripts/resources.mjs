// Writes src/generated/resources.ts: the generated operations as methods of one class for each
// tag, with the names that they have in the Python client.
import { readFileSync, writeFileSync } from 'node:fs';
import { parse } from 'yaml';

const root = new URL('..', import.meta.url);
const document = parse(readFileSync(new URL('../../docs/openapi.yaml', root), 'utf8'), { maxAliasCount: -1 });

// The noun that the methods of a tag need not repeat: `reports.get`, not `reports.getReport`
const NOUNS = {
  checks: 'CheckDefinition',
  corrections: 'Correction',
  erasures: 'Erasure',
  events: 'Event',
  monitoring: 'Rule',
  packages: 'Package',
  policy: 'PolicyVersion',
  reports: 'Report',
  sandbox: 'Sandbox',
  webhooks: 'Webhook',
};
// One is an alias of PATCH, one is for payment providers; `client.ts` has the other two.
const LEFT_OUT = new Set(['readAllAlertsByPut', 'receivePaymentEvent', 'getMe', 'getBalance']);

const pascal = (text) => text[0].toUpperCase() + text.slice(1);
const lower = (text) => text[0].toLowerCase() + text.slice(1);
const resolve = (part) =>
  part.$ref ? part.$ref.slice(2).split('/').reduce((found, step) => found[step], document) : part;

function methodName(tag, id) {
  if (id === 'createReports') return 'createMany';
  const noun = NOUNS[tag];
  const name = noun ? id.replace(new RegExp(`(?<=[a-z])${noun}s?(?=[A-Z]|$)`), '') : id;
  return lower(name.replace(/^export(?=[A-Z])/, ''));
}

function method(tag, { operationId: id, summary, description, parameters = [], requestBody, responses }) {
  const all = parameters.map(resolve);
  const path = all.filter((each) => each.in === 'path').map((each) => each.name);
  const query = all.filter((each) => each.in === 'query');
  const hasKey = all.some((each) => each.in === 'header' && each.name === 'Idempotency-Key');
  const name = methodName(tag, id);
  const data = `types.${pascal(id)}Data`;
  const answer = resolve(responses[Object.keys(responses).find((status) => status < '300')]);
  const type = answer.content ? `types.${pascal(id)}Response` : 'void';
  const mark = query.some((each) => each.required) ? '' : '?';
  const options = hasKey ? 'OrderOptions' : 'RequestOptions';
  const signature = [
    ...path.map((each) => `${each}: string`),
    ...(requestBody ? [`body${requestBody.required ? '' : '?'}: NonNullable<${data}['body']>`] : []),
    ...(query.length ? [`query${mark}: NonNullable<${data}['query']>`] : []),
    `options: ${options} = {}`,
  ];
  const sent = [
    'client: this.#http',
    ...(path.length ? [`path: { ${path.join(', ')} }`] : []),
    ...(requestBody ? ['body'] : []),
    ...(query.length ? ['query'] : []),
    hasKey ? '...ordering(options)' : '...options',
    ...(tag === 'exports' ? ["parseAs: 'text' as const"] : []),
  ];
  const text = [
    `  /**\n   * ${[summary, '', ...description.trim().split('\n')].join('\n   * ').replace(/ +$/gm, '')}\n   */`,
    `  async ${name}(${signature.join(', ')}): Promise<${type}> {`,
    `    ${type === 'void' ? '' : 'return '}await sdk.${id}({ ${sent.join(', ')} })${type === 'void' ? '' : ` as ${type}`};`,
    '  }',
  ];
  if (query.some((each) => each.name === 'page')) {
    text.push(
      '',
      `  /**\n   * ${summary}: all of them, page after page.\n   *\n   * If you change them so that they leave the filter, collect them first.\n   */`,
      `  ${name.replace('list', 'iterate')}(${[
        ...path.map((each) => `${each}: string`),
        `query: Omit<NonNullable<${data}['query']>, 'page'> = {}`,
        'options: RequestOptions = {}',
      ].join(', ')}) {`,
      `    return pages((page) => this.${name}(${[...path, '{ ...query, page }', 'options'].join(', ')}));`,
      '  }',
    );
  }
  return text.join('\n');
}

const tags = new Map();
for (const operations of Object.values(document.paths)) {
  for (const operation of Object.values(operations)) {
    if (!operation.operationId || LEFT_OUT.has(operation.operationId)) continue;
    const [tag] = operation.tags;
    tags.set(tag, [...(tags.get(tag) ?? []), method(tag, operation)]);
  }
}
const classes = [...tags].map(
  ([tag, methods]) => `export class ${pascal(tag)}Api {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

${methods.join('\n\n')}
}
`,
);
writeFileSync(
  new URL('src/generated/resources.ts', root),
  `import { type Http, type OrderOptions, type RequestOptions, ordering, pages } from '../requests.js';
import * as sdk from './sdk.gen.js';
import type * as types from './types.gen.js';

${classes.join('\n')}
/** All operations, by tag. */
export class Apis {
${[...tags.keys()].map((tag) => `  readonly ${tag}: ${pascal(tag)}Api;`).join('\n')}

  constructor(http: Http) {
${[...tags.keys()].map((tag) => `    this.${tag} = new ${pascal(tag)}Api(http);`).join('\n')}
  }
}
`,
);

const version = /^version = "(.+)"$/m.exec(readFileSync(new URL('../../pyproject.toml', root), 'utf8'))[1];
writeFileSync(new URL('src/generated/version.ts', root), `export const VERSION = '${version}';\n`);
