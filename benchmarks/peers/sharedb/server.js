// ShareDB on PostgreSQL behind a WebSocket. Usage: node server.js PORT POSTGRES_PORT USER DATABASE
'use strict'

const ShareDB = require('sharedb')
const postgres = require('sharedb-postgres')
const { WebSocketServer } = require('ws')
const WebSocketJSONStream = require('@teamwork/websocket-json-stream')

const HOST = '127.0.0.1'
const [port, postgresPort, user, database] = process.argv.slice(2)

// As many connections as can help here; the default of the driver is 10.
const db = postgres({ host: HOST, port: Number(postgresPort), user, database, max: 32 })
const backend = new ShareDB({ db })
const server = new WebSocketServer({ host: HOST, port: Number(port), perMessageDeflate: false })

server.on('connection', (socket) => {
  const stream = new WebSocketJSONStream(socket)
  stream.on('error', () => {}) // a load that ends closes without a goodbye
  backend.listen(stream)
})
