"Attention whose sequence is spread over several processes: what is declared, tried and found."
