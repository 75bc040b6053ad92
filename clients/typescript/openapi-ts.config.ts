import { defineConfig } from '@hey-api/openapi-ts';

export default defineConfig({
  input: '../../docs/openapi.yaml',
  output: { path: 'src/generated', importFileExtension: '.js' },
  logs: { file: false, level: 'error' },
  plugins: [
    {
      name: '@hey-api/typescript',
      // `Known | (string & {})`: an editor completes the known values of an enumeration that may gain others.
      '~resolvers': {
        union: ({ $, childResults: [known, other], schemas }) =>
          known && other && schemas.length === 2 && schemas[0]?.$ref && schemas[1]?.type === 'string'
            ? $.type.or(known.type, $.type.and($.type('string'), $.type.object()))
            : undefined,
      },
    },
    { name: '@hey-api/sdk', responseStyle: 'data', auth: false },
    { name: '@hey-api/client-fetch', throwOnError: true },
  ],
});
