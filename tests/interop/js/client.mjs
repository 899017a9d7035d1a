// Calls an agent as the official JavaScript client does, from the card alone.
//
//     node client.mjs URL BINDING '[["GetTask", {"id": "t1"}], ...]'
//
// Writes a line of JSON for each call: its results, and the error that ended it.

import * as a2a from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

const one = (method, request, response) => async function* (client, params) {
  yield response.toJSON(await client[method](request.fromJSON(params)));
};
const many = (method, request) => async function* (client, params) {
  for await (const event of client[method](request.fromJSON(params))) yield a2a.StreamResponse.toJSON(event);
};
const sent = { toJSON: (r) => ('messageId' in r ? { message: a2a.Message.toJSON(r) } : { task: a2a.Task.toJSON(r) }) };
const nothing = { toJSON: (r) => r ?? null, fromJSON: () => undefined };
const hook = a2a.TaskPushNotificationConfig;

const OPERATIONS = {
  SendMessage: one('sendMessage', a2a.SendMessageRequest, sent),
  SendStreamingMessage: many('sendMessageStream', a2a.SendMessageRequest),
  GetTask: one('getTask', a2a.GetTaskRequest, a2a.Task),
  ListTasks: one('listTasks', a2a.ListTasksRequest, a2a.ListTasksResponse),
  CancelTask: one('cancelTask', a2a.CancelTaskRequest, a2a.Task),
  SubscribeToTask: many('resubscribeTask', a2a.SubscribeToTaskRequest),
  CreateTaskPushNotificationConfig: one('createTaskPushNotificationConfig', hook, hook),
  GetTaskPushNotificationConfig: one(
    'getTaskPushNotificationConfig', a2a.GetTaskPushNotificationConfigRequest, hook),
  ListTaskPushNotificationConfigs: one(
    'listTaskPushNotificationConfig',
    a2a.ListTaskPushNotificationConfigsRequest, a2a.ListTaskPushNotificationConfigsResponse),
  DeleteTaskPushNotificationConfig: one(
    'deleteTaskPushNotificationConfig', a2a.DeleteTaskPushNotificationConfigRequest, nothing),
  GetExtendedAgentCard: one('getAgentCard', nothing, a2a.AgentCard),
};

const [url, binding, calls] = process.argv.slice(2);
const transports = [new GrpcTransportFactory(), new JsonRpcTransportFactory(), new RestTransportFactory()];
const factory = new ClientFactory({ transports: transports.filter((t) => t.protocolName === binding) });
const client = await factory.createFromUrl(url);

for (const [name, params] of JSON.parse(calls)) {
  const results = [];
  let error = null;
  try {
    for await (const result of OPERATIONS[name](client, params)) results.push(result);
  } catch (raised) {
    const told = raised.reason ? raised : (raised.cause ?? raised); // an event of a stream wraps its error
    error = { name: told.name, message: told.message, reason: told.reason ?? null };
  }
  console.log(JSON.stringify({ results, error }));
}
process.exit(0);
