export { Client, type ClientOptions, type FollowedEvent, type FollowOptions, type WaitOptions } from './client.js';
export * from './errors.js';
export type * from './generated/types.gen.js';
export type { OrderOptions, RequestOptions } from './requests.js';
export { type Event, verify } from './webhooks.js';
