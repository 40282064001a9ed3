// Sun and four planets under Newton's law: floating point and property access.
const YEAR = 365.24, SUN = 4 * Math.PI * Math.PI;

const body = (x, y, z, vx, vy, vz, mass) =>
  ({ x, y, z, vx: vx * YEAR, vy: vy * YEAR, vz: vz * YEAR, mass: mass * SUN });

function bodies() {
  return [
    body(0, 0, 0, 0, 0, 0, 1),
    body(4.841, -1.16, -0.1036, 0.00166, 0.0077, -0.000069, 0.000955),
    body(8.343, 4.125, -0.4035, -0.00277, 0.005, 0.000023, 0.000286),
    body(12.894, -15.111, -0.2233, 0.00296, 0.00238, -0.0000297, 0.0000437),
    body(15.38, -25.919, 0.1793, 0.00268, 0.00163, -0.0000952, 0.0000515),
  ];
}

function step(all, dt) {
  for (let i = 0; i < all.length; i++) {
    const a = all[i];
    for (let j = i + 1; j < all.length; j++) {
      const b = all[j];
      const dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
      const squared = dx * dx + dy * dy + dz * dz;
      const force = dt / (squared * Math.sqrt(squared));
      a.vx -= dx * b.mass * force;
      a.vy -= dy * b.mass * force;
      a.vz -= dz * b.mass * force;
      b.vx += dx * a.mass * force;
      b.vy += dy * a.mass * force;
      b.vz += dz * a.mass * force;
    }
  }
  for (const one of all) {
    one.x += dt * one.vx;
    one.y += dt * one.vy;
    one.z += dt * one.vz;
  }
}

function energy(all) {
  let sum = 0;
  all.forEach((a, i) => {
    sum += 0.5 * a.mass * (a.vx ** 2 + a.vy ** 2 + a.vz ** 2);
    for (const b of all.slice(i + 1)) sum -= (a.mass * b.mass) / Math.hypot(a.x - b.x, a.y - b.y, a.z - b.z);
  });
  return sum;
}

export function main() {
  const all = bodies();
  for (let n = 0; n < 20000; n++) step(all, 0.01);
  return energy(all).toFixed(6);
}
