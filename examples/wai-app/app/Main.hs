-- | A to-do list on http://localhost:3000, or on the port that PORT names. Open it twice.
module Main
  ( main,
  )
where

-- The only line that names a server.
import Network.Wai.Handler.Heddle (runEnv)
import Todo (newTodo)

main :: IO ()
main = newTodo >>= runEnv 3000
