// One step of HMC or of a tree, point by point.

import { colour } from "./colours";

/** Rows of x, y, doubling and direction in time, in the order of visits; `chosen` becomes the next state. */
export interface Trajectory {
  rows: Float32Array;
  chosen: number;
}

type Place = (value: number) => number;

const COLOURS = 8;

/** The points in the order of time: those that a tree added backwards come before its start. */
export function inTime(rows: Float32Array): number[] {
  const order: number[] = [];
  for (let k = 0; 4 * k < rows.length; k++) {
    if (rows[4 * k + 3]! < 0) order.unshift(k);
    else order.push(k);
  }
  return order;
}

/** A line through the points, each with the colour of its doubling; a ring at the start, a star at the point chosen. */
export function drawTrajectory(context: CanvasRenderingContext2D, trajectory: Trajectory, toX: Place, toY: Place): void {
  const { rows, chosen } = trajectory;
  const at = (k: number): [number, number] => [toX(rows[4 * k]!), toY(rows[4 * k + 1]!)];
  context.strokeStyle = colour("soft");
  context.lineWidth = 1.2;
  context.beginPath();
  for (const k of inTime(rows)) context.lineTo(...at(k));
  context.stroke();
  for (let k = 1; 4 * k < rows.length; k++) {
    context.fillStyle = colour(`chain-${rows[4 * k + 2]! % COLOURS}`);
    context.beginPath();
    context.arc(...at(k), 3, 0, 2 * Math.PI);
    context.fill();
  }
  context.strokeStyle = colour("text");
  context.lineWidth = 2;
  context.beginPath();
  context.arc(...at(0), 5, 0, 2 * Math.PI);
  context.stroke();
  drawStar(context, ...at(chosen));
}

function drawStar(context: CanvasRenderingContext2D, x: number, y: number): void {
  context.fillStyle = colour("path");
  context.strokeStyle = colour("card");
  context.lineWidth = 1;
  context.beginPath();
  for (let k = 0; k < 10; k++) {
    const radius = k % 2 === 0 ? 9 : 4;
    const angle = (Math.PI * k) / 5 - Math.PI / 2;
    context.lineTo(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
  }
  context.closePath();
  context.fill();
  context.stroke();
}
