{-# LANGUAGE OverloadedStrings #-}

-- | A to-do list on http://localhost:3000, or on the port that PORT names. Open it twice.
--
-- With CERTIFICATE and KEY, the names of two PEM files, it is on https://localhost:3000, and browsers use HTTP/2.
module Main
  ( main,
  )
where

-- The only lines that name a server.
import Network.Wai.Handler.Heddle (defaultSettings, runSettings, setBeforeMainLoop, setHost, setPort)
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
  given <- lookupEnv "PORT"
  port <- maybe (die "PORT is not a number") pure (maybe (Just 3000) readMaybe given)
  let settings scheme =
        setBeforeMainLoop (putStrLn ("The list is at " ++ scheme ++ "://localhost:" ++ show port ++ "/")) (setHost "127.0.0.1" (setPort port defaultSettings))
  case (certificate, key) of
    (Just c, Just k) -> runTLS (tlsSettings c k) (settings "https") todo
    _ -> runSettings (settings "http") todo
