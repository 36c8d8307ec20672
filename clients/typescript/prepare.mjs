// Builds the package where it is installed from its folder, whose own packages npm leaves out then.

import { execSync } from "node:child_process";
import { existsSync } from "node:fs";

const run = (command) => execSync(command, { stdio: ["ignore", process.stderr, process.stderr] });
if (!existsSync("node_modules/typescript")) run("npm ci --ignore-scripts --no-audit --no-fund");
run("npm run build");
