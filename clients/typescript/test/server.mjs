import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Starts a server that gives these answers, the last one again and again. An answer has status,
 * headers, body; `cutAt` closes the connection after so many bytes, `stallsAt` sends no more than
 * these, `silent` never answers, `slow` pauses for this many milliseconds after each byte.
 */
export async function answering(t, ...answers) {
  const received = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    received.push({ method: request.method, url: request.url, headers: request.headers, body });
    const answer = answers.length > 1 ? answers.shift() : answers[0];
    if (answer.silent) return;
    const text = typeof answer.body === 'string' ? answer.body : JSON.stringify(answer.body ?? {});
    response.writeHead(answer.status ?? 200, {
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(text),
      ...answer.headers,
    });
    if (answer.slow) {
      for (const byte of Buffer.from(text)) {
        response.write(Buffer.of(byte));
        await sleep(answer.slow);
      }
      response.end();
    } else if (answer.stallsAt !== undefined) response.write(text.slice(0, answer.stallsAt));
    else if (answer.cutAt === undefined) response.end(text);
    else response.write(text.slice(0, answer.cutAt), () => request.socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, received };
}

export const problem = (status, code, more = {}) => ({
  status,
  body: { type: `https://service.test/problems/${code}`, title: 'Title', status, detail: 'Why', code, requestId: 'r-1', ...more },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '0' },
});
