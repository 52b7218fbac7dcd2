"""What is checked, and how it is called: functions of q, k and v, and layers."""
