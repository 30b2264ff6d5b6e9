-- | A chat at http://localhost:8000, or at another port that is given.
module Main
  ( main,
  )
where

import Chat (chat, newRooms)
import Heddle.Http (defaultSettings, runServer)
import Network.Socket (SockAddr (..), tupleToHostAddress)
import System.Environment (getArgs)
import System.Exit (die)
import Text.Read (readMaybe)

main :: IO ()
main = do
  arguments <- getArgs
  port <- case arguments of
    [] -> pure (8000 :: Int)
    [one] | Just n <- readMaybe one, n > 0, n < 65536 -> pure n
    _ -> die "usage: heddle-chat [PORT]"
  rooms <- newRooms 100
  putStrLn ("The chat is at http://localhost:" ++ show port ++ "/")
  runServer defaultSettings [SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))] (chat rooms)
