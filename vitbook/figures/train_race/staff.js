// The worker behind the figure: jobs go out, answers come to whoever asked.

/** A worker of a classic script, which file:// allows: send(job, answer), and end(). Its errors go to complain. */
export function hire(script, complain) {
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  const worker = new Worker(address);
  const listeners = new Map();
  let sent = 0;
  worker.onmessage = ({ data }) => {
    if (data.error) complain(`The training has failed: ${data.error}`);
    else listeners.get(data.id)?.(data);
  };
  worker.onerror = ({ message }) => complain(`This browser cannot train: ${message}`);
  return {
    send(job, answer) {
      const id = ++sent;
      if (answer) listeners.set(id, answer);
      worker.postMessage({ ...job, id });
    },
    end() {
      worker.terminate();
      URL.revokeObjectURL(address);
    },
  };
}
