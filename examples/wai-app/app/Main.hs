-- | A to-do list on http://localhost:3000, or on the port that PORT names. Open it twice.
--
-- With CERTIFICATE and KEY, the names of two PEM files, it is on https://localhost:3000, and browsers use HTTP/2.
module Main
  ( main,
  )
where

-- The only lines that name a server.
import Network.Wai.Handler.Heddle (defaultSettings, runEnv, setPort)
import Network.Wai.Handler.HeddleTLS (runTLS, tlsSettings)
import System.Environment (lookupEnv)
import System.Exit (die)
import Text.Read (readMaybe)
import Todo (newTodo)

main :: IO ()
main = do
  todo <- newTodo
  certificate <- lookupEnv "CERTIFICATE"
  key <- lookupEnv "KEY"
  case (certificate, key) of
    (Just c, Just k) -> do
      given <- lookupEnv "PORT"
      port <- maybe (die "PORT is not a number") pure (maybe (Just 3000) readMaybe given)
      runTLS (tlsSettings c k) (setPort port defaultSettings) todo
    _ -> runEnv 3000 todo
