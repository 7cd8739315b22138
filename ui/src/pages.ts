import "./config.js";
import "./files.js";
import "./logs.js";
import "./memory.js";
import "./prompt.js";
import "./sessions.js";
import "./skills.js";
import "./system.js";
