"""How good a trained model is: ranking metrics, violation and reward."""
