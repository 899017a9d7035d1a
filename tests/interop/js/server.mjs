// An agent of the official JavaScript SDK on all three bindings, which says the same as tests/client/sdk_agent.py.
//
// Writes the URL of the server, and ends when its standard input does.

import { createServer } from 'node:http';
import * as a2a from '@a2a-js/sdk';
import {
  AgentEvent, DefaultPushNotificationSender, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import grpc from '@grpc/grpc-js';
import express from 'express';

class Agent {
  #waiting = new Map();

  async execute(context, bus) {
    const ids = { taskId: context.taskId, contextId: context.contextId };
    const text = context.userMessage.parts[0].content.value;
    if (text.startsWith('reply ')) {
      bus.publish(AgentEvent.message(said(text.slice(6), ids.contextId)));
      return;
    }
    bus.publish(AgentEvent.task(context.task ?? begun(ids, context.userMessage)));
    bus.publish(status(ids, 'TASK_STATE_WORKING'));
    await this.#work(text, ids, bus);
  }

  async #work(text, ids, bus) {
    if (text === 'wait') {
      await new Promise((resolve) => this.#waiting.set(ids.taskId, { ids, resolve }));
    } else if (text === 'ask') {
      bus.publish(status(ids, 'TASK_STATE_INPUT_REQUIRED', 'which?'));
    } else if (text === 'fail') {
      bus.publish(status(ids, 'TASK_STATE_FAILED', 'no paper'));
    } else {
      ['Hel', 'lo, ', text].forEach((piece, index) => bus.publish(chunk(ids, piece, index)));
      bus.publish(status(ids, 'TASK_STATE_COMPLETED'));
    }
  }

  async cancelTask(taskId, bus) {
    const { ids, resolve } = this.#waiting.get(taskId) ?? { ids: { taskId, contextId: '' }, resolve: () => {} };
    bus.publish(status(ids, 'TASK_STATE_CANCELED'));
    resolve();
  }
}

function said(text, contextId) {
  return a2a.Message.fromJSON({ messageId: 'r1', contextId, role: 'ROLE_AGENT', parts: [{ text }] });
}

function begun({ taskId, contextId }, message) {
  const made = a2a.Task.fromJSON({ id: taskId, contextId, status: { state: 'TASK_STATE_SUBMITTED' } });
  return { ...made, history: [message] };
}

function status(ids, state, text) {
  const update = a2a.TaskStatusUpdateEvent.fromJSON({ ...ids, status: { state, timestamp: new Date().toISOString() } });
  if (text) update.status.message = said(text, ids.contextId);
  return AgentEvent.statusUpdate(update);
}

function chunk(ids, text, index) {
  const artifact = { artifactId: 'A1', name: 'greeting', parts: [{ text }] };
  const update = { ...ids, artifact, append: index > 0, lastChunk: index === 2 };
  return AgentEvent.artifactUpdate(a2a.TaskArtifactUpdateEvent.fromJSON(update));
}

function card(http, grpcAddress) {
  const urls = { GRPC: grpcAddress, JSONRPC: `${http}/rpc`, 'HTTP+JSON': `${http}/rest` };
  return a2a.AgentCard.fromJSON({
    name: 'Peer',
    description: 'Greets.',
    version: '1.0.0',
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
    defaultInputModes: ['text/plain'],
    defaultOutputModes: ['text/plain'],
    skills: [{ id: 'greet', name: 'Greet', description: 'Greets.', tags: ['test'] }],
    supportedInterfaces: Object.entries(urls).map(
      ([protocolBinding, url]) => ({ url, protocolBinding, protocolVersion: '1.0' })),
  });
}

const app = express();
const server = createServer(app);
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const http = `http://127.0.0.1:${server.address().port}`;
const grpcServer = new grpc.Server();
const port = await new Promise((resolve, reject) => grpcServer.bindAsync(
  '127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, bound) => (error ? reject(error) : resolve(bound))));

const shown = card(http, `127.0.0.1:${port}`);
const hooks = new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(
  shown, new InMemoryTaskStore(), new Agent(), undefined, hooks, new DefaultPushNotificationSender(hooks),
  async () => ({ ...shown, name: 'Peer, extended' }));
const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
app.use(`/${a2a.AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler(options));
app.use('/rest', restHandler(options));
grpcServer.addService(A2AService, grpcService(options));

console.log(http);
process.stdin.resume().on('end', () => process.exit(0));
