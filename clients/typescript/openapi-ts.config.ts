import { defineConfig } from '@hey-api/openapi-ts';

export default defineConfig({
  input: '../../docs/openapi.yaml',
  output: { path: 'src/generated', importFileExtension: '.js' },
  logs: { file: false, level: 'error' },
  plugins: [
    '@hey-api/typescript',
    { name: '@hey-api/sdk', responseStyle: 'data', auth: false },
    { name: '@hey-api/client-fetch', throwOnError: true },
  ],
});
