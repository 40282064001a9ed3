// An operating system's scheduler in small, in the manner of the Richards benchmark: tasks of four kinds pass packets
// to each other. Method calls, linked lists, dispatch over classes.
const WORK = 0, DEVICE = 1;

class Packet {
  constructor(to, kind) {
    this.next = null;
    this.to = to;
    this.kind = kind;
    this.value = 0;
    this.data = [0, 0, 0, 0];
  }
}

class Queue {
  constructor() {
    this.first = null;
    this.last = null;
    this.length = 0;
  }
  push(packet) {
    packet.next = null;
    if (this.last) this.last.next = packet;
    else this.first = packet;
    this.last = packet;
    this.length++;
  }
  pull() {
    const packet = this.first;
    if (!packet) return null;
    this.first = packet.next;
    if (!this.first) this.last = null;
    this.length--;
    return packet;
  }
}

class Task {
  constructor(system, id, priority) {
    this.system = system;
    this.id = id;
    this.priority = priority;
    this.queue = new Queue();
    this.held = false;
    this.runs = 0;
  }
  get ready() {
    return !this.held && this.queue.length > 0;
  }
  run() {
    this.runs++;
    this.take(this.queue.pull());
  }
}

class Idle extends Task {
  constructor(system, id, count) {
    super(system, id, 0);
    this.left = count;
    this.seed = 1;
  }
  get ready() {
    return this.left > 0;
  }
  run() {
    this.runs++;
    this.left--;
    this.seed = this.seed & 1 ? (this.seed >> 1) ^ 0xd008 : this.seed >> 1;
    this.system.release(this.seed & 1 ? 4 : 5);
  }
}

class Worker extends Task {
  constructor(system, id, priority, handlers) {
    super(system, id, priority);
    this.handlers = handlers;
    this.turn = 0;
    this.letter = 0;
  }
  take(packet) {
    this.turn = (this.turn + 1) % this.handlers.length;
    packet.to = this.handlers[this.turn];
    packet.value = 0;
    for (let n = 0; n < packet.data.length; n++) {
      this.letter = (this.letter + 1) % 26;
      packet.data[n] = 65 + this.letter;
    }
    this.system.send(packet);
  }
}

class Handler extends Task {
  constructor(system, id, priority, device) {
    super(system, id, priority);
    this.device = device;
    this.work = new Queue();
    this.devices = new Queue();
  }
  take(packet) {
    (packet.kind === WORK ? this.work : this.devices).push(packet);
    const work = this.work.first;
    if (!work) return;
    if (work.value >= work.data.length) {
      this.work.pull();
      work.to = 1;
      this.system.send(work);
    } else if (this.devices.length) {
      const carrier = this.devices.pull();
      carrier.value = work.data[work.value++];
      carrier.to = this.device;
      carrier.from = this.id;
      this.system.send(carrier);
    }
  }
}

class Device extends Task {
  take(packet) {
    this.sum = ((this.sum ?? 0) * 31 + packet.value) | 0;
    packet.to = packet.from;
    this.held = true;
    this.system.send(packet);
  }
}

class System {
  constructor(count) {
    this.sent = 0;
    this.tasks = [
      new Idle(this, 0, count),
      new Worker(this, 1, 1000, [2, 3]),
      new Handler(this, 2, 2000, 4),
      new Handler(this, 3, 3000, 5),
      new Device(this, 4, 4000),
      new Device(this, 5, 5000),
    ];
    this.order = [...this.tasks].sort((a, b) => b.priority - a.priority);
    for (let n = 0; n < 3; n++) {
      this.send(new Packet(1, WORK));
      this.send(new Packet(2, DEVICE));
      this.send(new Packet(3, DEVICE));
    }
  }
  send(packet) {
    this.sent++;
    this.tasks[packet.to].queue.push(packet);
  }
  release(id) {
    this.tasks[id].held = false;
  }
  next() {
    for (const task of this.order) if (task.ready) return task;
    return null;
  }
  run() {
    for (let task = this.next(); task; task = this.next()) task.run();
  }
}

export function main() {
  const system = new System(20000);
  system.run();
  return [system.sent, ...system.tasks.map((task) => task.runs)].join(" ");
}
